#include "trainer/kvstore/round_watch.h"

#include <algorithm>

namespace trainyard::engine {

bool IsOverdue(const OpenRound& round, std::span<const absl::Time> active_at, absl::Duration patience, absl::Time now) {
  return std::ranges::any_of(round.missing, [&](int worker) { return std::max(round.since, active_at[worker]) + patience <= now; });
}

}  // namespace trainyard::engine
