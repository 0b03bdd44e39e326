// Throttle: how fast this process may ask. A token bucket, which also obeys the API server's
// Retry-After (API priority and fairness).
#pragma once

#include <stop_token>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "operator/base/clock.h"
#include "operator/base/mutex.h"

namespace trainyard::control {

struct ThrottleOptions {
  double qps = 500;  // tokens a second; 0 = no limit of our own
  double burst = 1000;
};

// Thread-safe. Waiters are served in the order in which they reserved.
class Throttle {
 public:
  Throttle(Clock& clock, ThrottleOptions options);

  // Waits for a token. DeadlineExceeded at once when none can be had before `deadline`
  // (Clock::Monotonic()); Cancelled on `stop`.
  absl::Status Acquire(absl::Duration deadline, std::stop_token stop);
  // No token is given out before `duration` from now: the server said so.
  void PauseFor(absl::Duration duration);

 private:
  static absl::Status TooSlow();

  Clock& clock_;
  const ThrottleOptions options_;
  Mutex mutex_;
  absl::Duration refilled_at_ ABSL_GUARDED_BY(mutex_);
  double tokens_ ABSL_GUARDED_BY(mutex_);  // negative: reserved ahead
  absl::Duration paused_until_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
};

}  // namespace trainyard::control
