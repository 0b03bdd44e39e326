#include "trainer/page/curve.h"

#include <algorithm>
#include <cmath>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

struct Mean {
  double step = 0;
  double value = 0;
};

// Of the finite values; NaN where there are none.
Mean MeanOf(std::span<const CurvePoint> points) {
  Mean mean;
  double count = 0;
  for (const CurvePoint& point : points) {
    if (!std::isfinite(point.value)) continue;
    mean.step += static_cast<double>(point.step);
    mean.value += point.value;
    ++count;
  }
  return {.step = mean.step / count, .value = mean.value / count};
}

double TriangleArea(const CurvePoint& a, const CurvePoint& b, const Mean& c) {
  const auto step_a = static_cast<double>(a.step);
  return std::abs((step_a - c.step) * (b.value - a.value) - (step_a - static_cast<double>(b.step)) * (c.value - a.value)) / 2;
}

}  // namespace

std::vector<CurvePoint> Downsample(std::span<const CurvePoint> points, size_t most) {
  TY_CHECK(most >= 3);
  if (points.size() <= most) return {points.begin(), points.end()};
  const std::span<const CurvePoint> inner = points.subspan(1, points.size() - 2);
  const size_t ranges = most - 2;
  const auto begin_of = [&](size_t range) { return range * inner.size() / ranges; };
  std::vector<CurvePoint> kept = {points.front()};
  for (size_t range = 0; range < ranges; ++range) {
    const std::span<const CurvePoint> own = inner.subspan(begin_of(range), begin_of(range + 1) - begin_of(range));
    const auto gap = std::ranges::find_if(own, [](const CurvePoint& point) { return !std::isfinite(point.value); });
    if (gap != own.end()) {
      kept.push_back(*gap);
      continue;
    }
    const std::span<const CurvePoint> next =
        range + 1 < ranges ? inner.subspan(begin_of(range + 1), begin_of(range + 2) - begin_of(range + 1)) : points.last(1);
    const Mean mean = MeanOf(next);
    const CurvePoint* largest = own.data();
    double area = -1;  // stays where the neighbours are not finite
    for (const CurvePoint& point : own) {
      const double of_point = TriangleArea(kept.back(), point, mean);
      if (of_point > area) {
        area = of_point;
        largest = &point;
      }
    }
    kept.push_back(*largest);
  }
  kept.push_back(points.back());
  return kept;
}

}  // namespace trainyard::engine
