// BurstPacer: when a cluster's events come fast, lets them come in batches. Waking up for an event
// costs more than the event itself.
#pragma once

#include <algorithm>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "operator/base/mutex.h"

namespace trainyard::control {

// Thread-safe. All streams of a cluster share one: while one stream is busy, the others need not be
// followed closer. A token bucket: kBurst pieces, and kRate more each second, are never held. So a
// quiet cluster waits for nothing, however its events are spread.
class BurstPacer {
 public:
  static constexpr double kBurst = 2048;  // pieces (a pod's event is one or two)
  static constexpr double kRate = 30;     // a second
  static constexpr absl::Duration kPause = absl::Milliseconds(200);

  // After a piece that came at `now` (Clock::Monotonic()): did so many come that it is worth
  // waiting for more of them?
  bool InBurst(absl::Duration now) {
    MutexLock lock(mutex_);
    now = std::max(now, last_);
    tokens_ = std::min(kBurst, tokens_ + kRate * absl::ToDoubleSeconds(now - last_));
    last_ = now;
    if (tokens_ < 1) return true;
    tokens_ -= 1;
    return false;
  }

 private:
  Mutex mutex_;
  double tokens_ ABSL_GUARDED_BY(mutex_) = kBurst;
  absl::Duration last_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
};

}  // namespace trainyard::control
