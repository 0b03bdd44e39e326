// Which waits are told to people, and how often.
#pragma once

#include "absl/time/time.h"

namespace trainyard::engine {

// Shorter waits are nobody's business: workers are never equally fast.
inline constexpr absl::Duration kShownWait = absl::Seconds(5);

// When a wait that goes on is said (again): at most every kShownWait. Not thread-safe.
class WaitPace {
 public:
  // `waits`: whether there is something to say now.
  bool Due(bool waits, absl::Time now) {
    if (!waits || now < next_) return false;
    next_ = now + kShownWait;
    return true;
  }

 private:
  absl::Time next_ = absl::InfinitePast();
};

}  // namespace trainyard::engine
