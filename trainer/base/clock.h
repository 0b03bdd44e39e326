// Time, injected: code that waits or measures takes a Clock, so that its tests never sleep.
#pragma once

#include "absl/time/time.h"

namespace trainyard::engine {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() = 0;
  // Returns at Now() + duration, or later.
  virtual void SleepFor(absl::Duration duration) = 0;
};

// The system's clock; lives as long as the process.
Clock& RealClock();

}  // namespace trainyard::engine
