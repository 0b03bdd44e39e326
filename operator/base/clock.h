// Time, injected: code that waits or measures takes a Clock, so that its tests never sleep.
#pragma once

#include <stop_token>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "operator/base/mutex.h"

namespace trainyard::control {

// Thread-safe. Two kinds of time, because clocks jump:
//  - Now() is the wall clock, for what people and objects carry (startTime, lastTransitionTime);
//  - Monotonic() never goes back and never jumps, for every wait, timeout and lease. Its zero means nothing.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() = 0;
  virtual absl::Duration Monotonic() = 0;
  // Waits on `condition` until it is notified or Monotonic() reaches `deadline`
  // (absl::InfiniteDuration(): no deadline). May return early: callers loop over their condition.
  virtual void WaitUntil(CondVar& condition, Mutex& mutex, absl::Duration deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;
};

// The system's clocks; lives as long as the process.
Clock& RealClock();

// Waits `duration` on `clock`. False when `stop` was asked for first.
bool SleepFor(Clock& clock, absl::Duration duration, std::stop_token stop);

}  // namespace trainyard::control
