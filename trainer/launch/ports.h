// Free TCP ports on the loopback interface, for replicas that run as local processes.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace trainyard::engine {

// `count` distinct ports that nobody listens on now. Another program may still take one before it is used: its owner then reports it as in
// use.
absl::StatusOr<std::vector<uint16_t>> FreePorts(int count);

}  // namespace trainyard::engine
