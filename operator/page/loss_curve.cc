#include "operator/page/loss_curve.h"

#include <algorithm>
#include <limits>

namespace trainyard::control {
namespace {

float FloatOr(const std::optional<double>& value) { return value ? static_cast<float>(*value) : std::numeric_limits<float>::quiet_NaN(); }

}  // namespace

void LossCurve::Add(const Progress& progress) {
  const Point point{progress.step, FloatOr(progress.loss), FloatOr(progress.examples_per_second)};
  const auto later =
      std::lower_bound(points_.begin(), points_.end(), point.step, [](const Point& a, int64_t step) { return a.step < step; });
  if (later != points_.end()) {
    points_.erase(later, points_.end());
    since_ = stride_;
  } else if (newest_is_kept_ || newest_.step != point.step) {
    ++since_;  // else the newest is told again
  }
  newest_ = point;
  newest_is_kept_ = since_ >= stride_ || points_.empty();
  if (!newest_is_kept_) return;
  points_.push_back(point);
  since_ = 0;
  if (points_.size() < kMost) return;
  size_t kept = 0;
  for (size_t i = 1; i < points_.size(); i += 2) points_[kept++] = points_[i];
  points_.resize(kept);
  stride_ *= 2;
}

std::vector<LossCurve::Point> LossCurve::Points(size_t most) const {
  std::vector<Point> all = points_;
  if (!newest_is_kept_) all.push_back(newest_);
  if (all.size() <= most || most < 2) return all;
  std::vector<Point> some(most);
  for (size_t i = 0; i < most; ++i) some[i] = all[i * (all.size() - 1) / (most - 1)];
  return some;
}

}  // namespace trainyard::control
