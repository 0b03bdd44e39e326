// How fast a replica goes and where its time goes. Arithmetic on times that the step loop hands in:
// no clock of its own.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace trainyard::engine {

enum class Phase { kInput = 0, kCompute = 1, kCommunication = 2 };

struct TimeSplit {
  absl::Duration input;
  absl::Duration compute;
  absl::Duration communication;
};

struct MeterOptions {
  absl::Duration window = absl::Seconds(10);  // speed and ETA look back this far
  double loss_smoothing = 0.9;                // weight of the past in the shown loss; 0 shows the last one
};

// The unit of speeds: an image, or, of a text, each of the words or characters of an example.
struct SpeedUnit {
  std::string name = "examples";  // images | examples | words | characters
  int64_t per_example = 1;

  friend bool operator==(const SpeedUnit&, const SpeedUnit&) = default;
};

// Not thread-safe.
class Meters {
 public:
  explicit Meters(const MeterOptions& options = {}) : options_(options) {}

  // Begins measuring; the first step's time counts from here.
  void Start(absl::Time now);
  void AddTime(Phase phase, absl::Duration duration);
  // One step of `examples` ended at `now` with `loss`.
  void AddStep(absl::Time now, int64_t examples, double loss);

  int64_t steps() const { return steps_; }
  int64_t examples() const { return examples_; }
  // Between Start() and the last step.
  absl::Duration elapsed() const;
  const TimeSplit& time_split() const { return split_; }
  // Over the window; 0 before the first step.
  double BatchesPerSecond() const;
  double ExamplesPerSecond() const;
  // Over the whole run; 0 before the first step.
  double MeanBatchesPerSecond() const;
  double MeanExamplesPerSecond() const;
  // Exponentially smoothed and corrected for its start (Kingma, Ba 2015, section 3); absent before
  // the first step. A last loss that is not finite shows as it is.
  std::optional<double> SmoothedLoss() const;
  double last_loss() const { return last_loss_; }
  // For `remaining` more steps at the window's speed; absent while there is no speed.
  std::optional<absl::Duration> Eta(int64_t remaining) const;

 private:
  struct Mark {
    absl::Time time;
    int64_t steps;
    int64_t examples;
  };
  static double PerSecond(int64_t count, absl::Duration time);

  MeterOptions options_;
  std::deque<Mark> window_;
  absl::Time start_;
  absl::Time last_;
  int64_t steps_ = 0;
  int64_t examples_ = 0;
  TimeSplit split_{};
  double smoothed_ = 0;
  double smoothing_weight_ = 0;
  double last_loss_ = 0;
};

}  // namespace trainyard::engine
