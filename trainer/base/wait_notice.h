// Long waits are told to people: after a while, and then once a period.
#pragma once

#include <optional>

#include "absl/time/time.h"

namespace trainyard::engine {

// Shorter waits are not told: workers are never equally fast.
inline constexpr absl::Duration kShownWait = absl::Seconds(5);

// Not thread-safe. Time is what its caller says it is.
class WaitNotice {
 public:
  // The wait began at `start`; InfinitePast: the wait is known to be long, so that the first notice
  // is due at once.
  WaitNotice(absl::Time start, absl::Duration period) : start_(start), period_(period), next_(start + kShownWait) {}

  // Of the wait, in whole seconds.
  absl::Duration Length(absl::Time now) const { return absl::Trunc(now - start_, absl::Seconds(1)); }
  // A value: a notice is due now. The value is the length of the wait.
  std::optional<absl::Duration> Due(absl::Time now) {
    if (now < next_) return std::nullopt;
    next_ = now + period_;
    return Length(now);
  }

 private:
  absl::Time start_;
  absl::Duration period_;
  absl::Time next_;
};

}  // namespace trainyard::engine
