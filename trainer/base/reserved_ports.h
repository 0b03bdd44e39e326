// TCP ports on the loopback interface for replicas that run as local processes.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/base/owned_fd.h"

namespace trainyard::engine {

// Distinct ports that the kernel gives to no other program and to no outgoing connection while this
// object lives. Each is bound and not listened at: a connection to it is refused until a replica
// listens there. That replica must bind the port with SO_REUSEADDR (ip(7), socket(7)).
class ReservedPorts {
 public:
  static absl::StatusOr<ReservedPorts> Reserve(size_t count);
  ReservedPorts(ReservedPorts&& other) noexcept = default;

  uint16_t operator[](size_t index) const { return ports_[index]; }

 private:
  ReservedPorts() = default;

  std::vector<OwnedFd> sockets_;
  std::vector<uint16_t> ports_;
};

}  // namespace trainyard::engine
