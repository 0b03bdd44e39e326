// How long the tests of transports wait for what comes at once on an idle machine.
#pragma once

#include "absl/time/time.h"

namespace trainyard::engine {

inline constexpr absl::Duration kSoon = absl::Seconds(20);
inline constexpr absl::Duration kSoonOverSockets = absl::Seconds(30);  // where the test itself is the peer, by sockets of its own

}  // namespace trainyard::engine
