// Time, injected: code that waits or measures takes a Clock, so that its tests never sleep.
#pragma once

#include "absl/time/time.h"

namespace trainyard::engine {

// Thread-safe. Two kinds of time, because the clocks of hosts jump:
//  - Now() never goes back and never jumps: for deadlines, timeouts and durations. Its epoch means
//    nothing: it is compared with times of the same clock only.
//  - Wall() is the time of day: for what people read and files store.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() = 0;
  virtual absl::Time Wall() = 0;
};

// The system's clocks; lives as long as the process. Now() starts at the time of day of its first
// call, so that the spans of several replicas lie near each other.
Clock& RealClock();

}  // namespace trainyard::engine
