// Streams inside one process, for tests that run ranks as threads.
#pragma once

#include <memory>

#include "absl/time/time.h"
#include "trainer/transport/transport.h"

namespace trainyard::engine {

// Addresses are any words; port 0 has no meaning. Peers must share the transport. Handlers run on
// one thread per transport. Destructors wait at most `end_deadline` for a handler that does not
// return.
std::unique_ptr<Transport> MakeInprocTransport(const FlowOptions& flow = {}, absl::Duration end_deadline = absl::Seconds(10));

}  // namespace trainyard::engine
