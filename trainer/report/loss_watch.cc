#include "trainer/report/loss_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trainyard::engine {

void LossWatch::Add(double loss, double smoothed) {
  if (!std::isfinite(loss) || !std::isfinite(smoothed)) return;
  if (steps_ == 0) first_ = loss;
  if (steps_ < kStartSteps) sum_ += loss;
  ++steps_;
  smoothed_ = smoothed;
}

void LossWatch::GoOnFrom(double start) {
  first_ = smoothed_ = start;
  sum_ = start * kStartSteps;
  steps_ = kStartSteps;
}

std::optional<double> LossWatch::settled_start() const { return steps_ >= kStartSteps ? start() : std::nullopt; }

std::optional<double> LossWatch::start() const {
  if (steps_ == 0) return std::nullopt;
  const double mean = sum_ / static_cast<double>(std::min(steps_, kStartSteps));
  return first_ > 0 && mean > kDiverged * first_ ? first_ : mean;
}

bool LossWatch::far_above() const {
  return steps_ > 2 * kStartSteps && *start() > 0 && smoothed_ > std::max(kFactor * *start(), kSmallLoss);
}

std::string LossWatch::Text(double staleness) const {
  std::string text =
      fmt::format("the loss is {:.3g}, far above {:.3g} at its start: the training is unstable; lower optimizer.learningRate", smoothed_,
                  start().value_or(0));
  if (staleness > 0) {
    text += fmt::format(
        " (gradients are {:.1f} updates old on average: fewer workers, strategy.parameterServer.mode: sync and "
        "staleGradients: adapt help too)",
        staleness);
  }
  return text;
}

}  // namespace trainyard::engine
