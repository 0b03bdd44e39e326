// Whether a training's loss has risen far above where it started, as it does where the learning
// rate is too high, more so with stale gradients.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace trainyard::engine {

// The start is the mean of the first kStartSteps losses, or the first one where that mean is more
// than kDiverged times it: a training may diverge within these steps. "Far above" is more than
// kFactor times the start, where that is positive, and more than kSmallLoss.
class LossWatch {
 public:
  static constexpr int64_t kStartSteps = 10;
  static constexpr double kFactor = 2;
  static constexpr double kDiverged = 100;
  static constexpr double kSmallLoss = 0.01;  // below it all is well: a training that goes on from its end may have a start of 1e-7

  // A training that goes on: its start is known.
  void GoOnFrom(double start);
  // The start once it will not change any more: what GoOnFrom takes.
  std::optional<double> settled_start() const;

  // The loss of the next step, and the smoothed one after it (Meters::SmoothedLoss). Values that
  // are not finite are left out.
  void Add(double loss, double smoothed);

  // Absent before the first step.
  std::optional<double> start() const;
  // Whether the last smoothed loss is far above the start. Never during the first 2 kStartSteps
  // steps.
  bool far_above() const;
  // "the loss is 62.1, far above 2.31 at its start; lower optimizer.learningRate". `staleness` > 0:
  // the mean one of an asynchronous job's gradients, which is named with what else helps.
  std::string Text(double staleness) const;

 private:
  int64_t steps_ = 0;
  double first_ = 0;
  double sum_ = 0;  // of the first steps
  double smoothed_ = 0;
};

}  // namespace trainyard::engine
