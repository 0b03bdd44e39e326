// Lanes inside one process, for tests that run ranks as threads.
#pragma once

#include <memory>

#include "trainer/transport/transport.h"

namespace trainyard::engine {

// Addresses are any words; port 0 has no meaning. Peers must share the transport. Handlers run on one thread per transport.
std::unique_ptr<Transport> MakeInprocTransport();

}  // namespace trainyard::engine
