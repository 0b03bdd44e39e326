#include "trainer/base/reserved_ports.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "trainer/base/error_text.h"

namespace trainyard::engine {

absl::StatusOr<ReservedPorts> ReservedPorts::Reserve(size_t count) {
  ReservedPorts reserved;
  while (reserved.ports_.size() < count) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) reserved.sockets_.emplace_back(fd);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    const int shared = 1;
    // Bound alone, so that the port is nobody else's; then shared with a socket that listens.
    if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
        getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &shared, sizeof shared) != 0) {
      const int error = errno;
      return ErrnoStatus(error, fmt::format("got {} of {} free ports on 127.0.0.1", reserved.ports_.size(), count));
    }
    reserved.ports_.push_back(ntohs(address.sin_port));
  }
  return reserved;
}

}  // namespace trainyard::engine
