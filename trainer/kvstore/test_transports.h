// The transports that the tests of servers and workers run over.
#pragma once

#include <memory>
#include <string>

#include "trainer/base/lendable_memory.h"
#include "trainer/transport/grpc_transport.h"
#include "trainer/transport/inproc_transport.h"
#include "trainer/transport/shared_memory_transport.h"

namespace trainyard::engine {

struct TransportKind {
  std::string name;
  std::unique_ptr<Transport> (*make)();
  std::string (*address)(int server);
};

// Of gradients and values; one transport of them lends it.
inline const std::shared_ptr<LendableMemory>& TestMemory() {
  static const std::shared_ptr<LendableMemory> memory = LendableMemory::Create().value();
  return memory;
}

inline const TransportKind kTransportKinds[] = {
    {"Inproc", +[] { return MakeInprocTransport(); }, +[](int server) { return "ps-" + std::to_string(server); }},
    {"Shared", +[] { return MakeSharedMemoryTransport(MakeInprocTransport(), {.lendable = TestMemory()}); },
     +[](int server) { return "ps-" + std::to_string(server); }},
    {"Grpc", +[] { return MakeGrpcTransport(); }, +[](int) { return std::string("127.0.0.1:0"); }},
};

}  // namespace trainyard::engine
