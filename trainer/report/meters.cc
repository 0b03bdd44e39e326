#include "trainer/report/meters.h"

#include <algorithm>
#include <cmath>

#include "trainer/base/check.h"

namespace trainyard::engine {

void Meters::Start(absl::Time now) {
  start_ = now;
  last_ = now;
  window_ = {{now, 0, 0}};
}

void Meters::AddTime(Phase phase, absl::Duration duration) {
  switch (phase) {
    case Phase::kInput:
      split_.input += duration;
      return;
    case Phase::kCompute:
      split_.compute += duration;
      return;
    case Phase::kCommunication:
      split_.communication += duration;
      return;
  }
}

void Meters::AddStep(absl::Time now, int64_t examples, double loss) {
  TY_CHECK(!window_.empty());
  ++steps_;
  examples_ += examples;
  last_ = now;
  last_loss_ = loss;
  window_.push_back({now, steps_, examples_});
  // One mark at or before the window's begin stays, so that the window is never shorter than asked
  // once the run is longer.
  while (window_.size() > 2 && window_[1].time <= now - options_.window) window_.pop_front();
  if (std::isfinite(loss)) {
    smoothed_ = options_.loss_smoothing * smoothed_ + (1.0 - options_.loss_smoothing) * loss;
    smoothing_weight_ = options_.loss_smoothing * smoothing_weight_ + (1.0 - options_.loss_smoothing);
  }
}

absl::Duration Meters::elapsed() const { return last_ - start_; }

double Meters::PerSecond(int64_t count, absl::Duration time) {
  const double seconds = absl::ToDoubleSeconds(time);
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

double Meters::BatchesPerSecond() const {
  if (window_.empty()) return 0;
  return PerSecond(window_.back().steps - window_.front().steps, window_.back().time - window_.front().time);
}

double Meters::ExamplesPerSecond() const {
  if (window_.empty()) return 0;
  return PerSecond(window_.back().examples - window_.front().examples, window_.back().time - window_.front().time);
}

double Meters::MeanBatchesPerSecond() const { return PerSecond(steps_, elapsed()); }

double Meters::MeanExamplesPerSecond() const { return PerSecond(examples_, elapsed()); }

std::optional<double> Meters::SmoothedLoss() const {
  if (steps_ == 0) return std::nullopt;
  if (!std::isfinite(last_loss_)) return last_loss_;
  return smoothed_ / smoothing_weight_;
}

std::optional<absl::Duration> Meters::Eta(int64_t remaining) const {
  const double speed = BatchesPerSecond();
  if (speed <= 0) return std::nullopt;
  return absl::Seconds(static_cast<double>(std::max<int64_t>(remaining, 0)) / speed);
}

}  // namespace trainyard::engine
