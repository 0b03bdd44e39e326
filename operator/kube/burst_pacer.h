// BurstPacer: when a stream's events come fast, lets them come in batches. Waking up for an event costs more than the event itself.
#pragma once

#include <algorithm>

#include "absl/time/time.h"

namespace trainyard::control {

// One stream's; not thread-safe. A token bucket: kBurst pieces, and kRate more each second, are never held, so that a quiet cluster waits
// for nothing, however its events are spread.
class BurstPacer {
 public:
  static constexpr double kBurst = 2048;  // pieces (a pod's event is one or two)
  static constexpr double kRate = 30;     // a second
  static constexpr absl::Duration kPause = absl::Milliseconds(100);

  // After a piece that came at `now` (Clock::Monotonic()): did so many come that it is worth waiting for more of them?
  bool InBurst(absl::Duration now) {
    tokens_ = std::min(kBurst, tokens_ + kRate * absl::ToDoubleSeconds(now - last_));
    last_ = now;
    if (tokens_ < 1) return true;
    tokens_ -= 1;
    return false;
  }

 private:
  double tokens_ = kBurst;
  absl::Duration last_ = absl::ZeroDuration();
};

}  // namespace trainyard::control
