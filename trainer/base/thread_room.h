// Whether this process can have the threads that it is about to start.
#pragma once

#include "absl/status/status.h"

namespace trainyard::engine {

// Starts `wanted` threads at once and ends them. ResourceExhausted says how many threads could be
// started, and names the limits. Libraries that start threads later end the process where they get
// none.
absl::Status CheckThreadRoom(int wanted);

}  // namespace trainyard::engine
