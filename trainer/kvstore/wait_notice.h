// When a wait that goes on is told in the log: after a while, and then now and again.
#pragma once

#include <optional>

#include "absl/time/time.h"

namespace trainyard::engine {

// Not thread-safe. Time is what its caller says it is.
class WaitNotice {
 public:
  static constexpr absl::Duration kFirst = absl::Seconds(5);
  static constexpr absl::Duration kPeriod = absl::Seconds(30);

  explicit WaitNotice(absl::Time start) : start_(start), next_(start + kFirst) {}

  // How long the wait has been, in whole seconds, when that is to be told.
  std::optional<absl::Duration> Due(absl::Time now) {
    if (now < next_) return std::nullopt;
    next_ = now + kPeriod;
    return absl::Trunc(now - start_, absl::Seconds(1));
  }

 private:
  absl::Time start_;
  absl::Time next_;
};

}  // namespace trainyard::engine
