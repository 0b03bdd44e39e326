// For tests: addresses of this machine for replicas that will listen there.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "trainer/transport/grpc_transport.h"

namespace trainyard::engine {

// Nobody listens there: each was bound and let go. The ports lie below those that the kernel gives
// away (ip_local_port_range), so that no server of a replica takes one meanwhile.
inline std::vector<std::string> FreeAddresses(size_t count) {
  struct Ignore final : StreamHandler {
    void OnMessage(const std::shared_ptr<Stream>& /*stream*/, std::span<Record> /*records*/) override {}
    void OnClosed(const std::shared_ptr<Stream>& /*stream*/, const absl::Status& /*status*/) override {}
  };
  constexpr int kFirst = 10'000;
  constexpr int kCount = 20'000;
  static int next = static_cast<int>(std::random_device()() % kCount);  // tests run side by side
  const std::unique_ptr<Transport> transport = MakeGrpcTransport();
  std::vector<std::string> addresses;
  for (int tries = 0; addresses.size() < count && tries < kCount; ++tries) {
    const std::string address = fmt::format("127.0.0.1:{}", kFirst + next++ % kCount);
    if (transport->Listen(address, std::make_shared<Ignore>()).ok()) addresses.push_back(address);
  }
  return addresses;
}

}  // namespace trainyard::engine
