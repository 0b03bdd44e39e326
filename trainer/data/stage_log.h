// The times of a batch's making: its pipeline's stages note them while they work on it.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "trainer/base/clock.h"

namespace trainyard::engine {

// One stretch of a stage's own work, without that of the stages before it.
struct StageSpan {
  std::string_view stage;  // "order", "read", "cache", "map"; lives as long as the program
  absl::Time start;
  absl::Duration duration;
};

// Not thread-safe: it travels with its batch. `clock` must outlive it.
class StageLog {
 public:
  explicit StageLog(Clock& clock = RealClock()) : clock_(&clock) {}

  void Clear() { spans_.clear(); }
  absl::Time Now() const { return clock_->Now(); }
  // Notes the time from `start` to now.
  void Add(std::string_view stage, absl::Time start) { spans_.push_back({stage, start, clock_->Now() - start}); }
  std::span<const StageSpan> spans() const { return spans_; }

 private:
  Clock* clock_;
  std::vector<StageSpan> spans_;
};

}  // namespace trainyard::engine
