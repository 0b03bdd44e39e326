// LogBudget: how often something that others can cause at will is logged.
#pragma once

#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "operator/base/clock.h"
#include "operator/base/mutex.h"

namespace trainyard::control {

// Thread-safe. The first ten of each minute.
class LogBudget {
 public:
  explicit LogBudget(Clock& clock) : clock_(clock) {}

  // How many were held back since the last that was logged; nothing: hold this back too.
  std::optional<int> Take();

 private:
  static constexpr int kPerMinute = 10;

  Clock& clock_;
  Mutex mutex_;
  absl::Duration minute_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();  // when the current one began
  int taken_ ABSL_GUARDED_BY(mutex_) = 0;
  int held_back_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace trainyard::control
