// When two signals are one request to stop.
#pragma once

#include "absl/time/time.h"

namespace trainyard::engine {

// Signals within this time of the first one ask for the same. timeout(1) sends SIGTERM to its
// command and then to the command's process group, so the command gets it twice.
inline constexpr absl::Duration kOneStop = absl::Milliseconds(500);

}  // namespace trainyard::engine
