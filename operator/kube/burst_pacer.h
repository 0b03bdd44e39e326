// BurstPacer: when a stream's events come fast, lets them come in batches. Waking up for an event costs more than the event itself.
#pragma once

#include "absl/time/time.h"

namespace trainyard::control {

// One stream's; not thread-safe. The first kBurst pieces of a burst are never held, and a burst ends with the first gap: a quiet cluster
// waits for nothing.
class BurstPacer {
 public:
  static constexpr int kBurst = 64;                              // pieces (a pod's event is one or two)
  static constexpr absl::Duration kGap = absl::Milliseconds(5);  // a longer silence ends the burst
  static constexpr absl::Duration kPause = absl::Milliseconds(10);

  // After a piece that came at `now` (Clock::Monotonic()): within a burst, in which it is worth asking whether more lies ready?
  bool InBurst(absl::Duration now) {
    pieces_ = now - last_ < kGap ? pieces_ + 1 : 0;
    last_ = now;
    return pieces_ > kBurst;
  }
  // The reader has slept until `now`.
  void Paused(absl::Duration now) { last_ = now; }

 private:
  int pieces_ = 0;
  absl::Duration last_ = -absl::InfiniteDuration();
};

}  // namespace trainyard::control
