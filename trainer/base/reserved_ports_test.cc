#include "trainer/base/reserved_ports.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <set>
#include <string>

#include "trainer/base/owned_fd.h"
#include "trainer/base/test_process.h"

namespace trainyard::engine {
namespace {

// A socket and what became of it.
class Socket {
 public:
  Socket() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}

  // 0 or errno.
  int Bind(uint16_t port, bool reuse) const {
    const int yes = reuse ? 1 : 0;
    setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    const sockaddr_in address = Loopback(port);
    return bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
  }
  int Listen() const { return listen(fd_.get(), 1) == 0 ? 0 : errno; }
  int Connect(uint16_t port) const {
    const sockaddr_in address = Loopback(port);
    return connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
  }

 private:
  static sockaddr_in Loopback(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }

  const OwnedFd fd_;
};

TEST(ReservedPorts, AreDistinctAlsoFromThoseOfAnother) {
  const auto one = ReservedPorts::Reserve(200);
  const auto other = ReservedPorts::Reserve(200);
  ASSERT_TRUE(one.ok() && other.ok()) << one.status() << other.status();
  std::set<uint16_t> ports;
  for (size_t i = 0; i < 200; ++i) ports.insert({(*one)[i], (*other)[i]});
  EXPECT_EQ(ports.size(), 400U);
}

TEST(ReservedPorts, AProcessThatIsOutOfFilesSaysSo) {
  const int exit_code = ExitCodeOf([] {
    const rlimit few{.rlim_cur = 16, .rlim_max = 16};
    if (::setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
    const absl::Status status = ReservedPorts::Reserve(200).status();
    return absl::IsResourceExhausted(status) && std::string(status.message()).ends_with("Too many open files, see ulimit -n") ? 0 : 2;
  });
  EXPECT_EQ(exit_code, 0);
}

TEST(ReservedPorts, AReplicaMayListenAndStartAgainAndNobodyElseGetsThePort) {
  const auto reserved = ReservedPorts::Reserve(1);
  ASSERT_TRUE(reserved.ok()) << reserved.status();
  const uint16_t port = (*reserved)[0];
  for (int start = 0; start < 2; ++start) {
    EXPECT_EQ(Socket().Connect(port), ECONNREFUSED);
    EXPECT_EQ(Socket().Bind(port, /*reuse=*/false), EADDRINUSE);
    const Socket replica;
    EXPECT_EQ(replica.Bind(port, /*reuse=*/true), 0);
    EXPECT_EQ(replica.Listen(), 0);
    EXPECT_EQ(Socket().Connect(port), 0);
  }
}

}  // namespace
}  // namespace trainyard::engine
