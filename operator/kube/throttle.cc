#include "operator/kube/throttle.h"

#include <algorithm>

namespace trainyard::control {

Throttle::Throttle(Clock& clock, ThrottleOptions options)
    : clock_(clock), options_(options), refilled_at_(clock.Monotonic()), tokens_(options.burst) {}

absl::Status Throttle::Acquire(absl::Duration deadline, std::stop_token stop) {
  // Each round reserves at most one token, so that a pause that begins while we wait is obeyed too
  // without paying twice.
  bool reserved = false;
  absl::Duration mine = -absl::InfiniteDuration();
  while (true) {
    absl::Duration wait;
    {
      MutexLock lock(mutex_);
      const absl::Duration now = clock_.Monotonic();
      if (!reserved && options_.qps > 0) {
        tokens_ = std::min(options_.burst, tokens_ + absl::ToDoubleSeconds(now - refilled_at_) * options_.qps);
        refilled_at_ = now;
        mine = now + absl::Seconds(std::max(0.0, 1 - tokens_) / options_.qps);
        if (std::max(mine, paused_until_) > deadline) return TooSlow();
        tokens_ -= 1;
        reserved = true;
      }
      const absl::Duration ready = std::max(mine, paused_until_);
      if (ready > deadline) return TooSlow();
      wait = ready - now;
    }
    if (stop.stop_requested()) return absl::CancelledError("stopping");
    if (wait <= absl::ZeroDuration()) return absl::OkStatus();
    if (!SleepFor(clock_, wait, stop)) return absl::CancelledError("stopping");
  }
}

void Throttle::PauseFor(absl::Duration duration) {
  MutexLock lock(mutex_);
  paused_until_ = std::max(paused_until_, clock_.Monotonic() + duration);
}

absl::Status Throttle::TooSlow() {
  return absl::DeadlineExceededError(
      "the request's deadline comes before its turn in the client-side rate limit or the server's Retry-After; raise --qps and --burst if "
      "this lasts");
}

}  // namespace trainyard::control
