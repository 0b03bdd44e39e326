// Brings the clocks of all replicas to one, from the messages that they sent each other anyway.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/profile/exchanges.h"

namespace trainyard::engine {

inline constexpr int64_t kMostOffset = int64_t{1} << 50;  // nanoseconds: 13 days

struct ClockOffset {
  bool known = false;       // false: nothing connects this replica to the first one (or only by clocks that are more than
                            // kMostOffset apart); its times are taken as they are
  int64_t nanos = 0;        // to be added to the replica's times
  int64_t uncertainty = 0;  // the true offset lies within nanos +- uncertainty, if no clock was set meanwhile
};

// By profile; the first one is the reference. A push is sent at t0 by the worker's clock and
// arrives at t1 by the server's. Its answer leaves at t2 and arrives at t3. So the server's clock
// is ahead of the worker's by at most t1 - t0 and at least t2 - t3. These are the four times of NTP
// (RFC 5905 section 8), with all exchanges of a pair instead of the quickest one. The offset is the
// middle of the range that no exchange contradicts. Pairs are joined from the reference outwards,
// the most certain pair first.
std::vector<ClockOffset> AlignClocks(std::span<const ReplicaProfile> profiles, std::span<const Exchange> exchanges);

}  // namespace trainyard::engine
