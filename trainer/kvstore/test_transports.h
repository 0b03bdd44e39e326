// The transports that the tests of servers and workers run over.
#pragma once

#include <memory>
#include <string>

#include "trainer/transport/grpc_transport.h"
#include "trainer/transport/inproc_transport.h"

namespace trainyard::engine {

struct TransportKind {
  std::string name;
  std::unique_ptr<Transport> (*make)();
  std::string (*address)(int server);
};

inline const TransportKind kTransportKinds[] = {
    {"Inproc", +[] { return MakeInprocTransport(); }, +[](int server) { return "ps-" + std::to_string(server); }},
    {"Grpc", +[] { return MakeGrpcTransport(); }, +[](int) { return std::string("127.0.0.1:0"); }},
};

}  // namespace trainyard::engine
