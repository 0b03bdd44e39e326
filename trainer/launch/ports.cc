#include "trainer/launch/ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace trainyard::engine {
namespace {

// The port of `fd` after binding it to 127.0.0.1 and any port, or an error.
absl::StatusOr<uint16_t> BindAny(int fd) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0 || getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return absl::ErrnoToStatus(errno, "no free port on 127.0.0.1");
  }
  return ntohs(address.sin_port);
}

}  // namespace

absl::StatusOr<std::vector<uint16_t>> FreePorts(int count) {
  std::vector<int> sockets;  // all held until the last is found, so that no port is given twice
  std::vector<uint16_t> ports;
  absl::Status status;
  for (int i = 0; i < count && status.ok(); ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      status = absl::ErrnoToStatus(errno, "socket");
      break;
    }
    sockets.push_back(fd);
    absl::StatusOr<uint16_t> port = BindAny(fd);
    status = port.status();
    if (port.ok()) ports.push_back(*port);
  }
  for (int fd : sockets) close(fd);
  if (!status.ok()) return status;
  return ports;
}

}  // namespace trainyard::engine
