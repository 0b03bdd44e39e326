// Troubles that only a network gives a stream: hosts that vanish, connections that say nothing.
#include "trainer/transport/grpc_transport.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "trainer/base/owned_fd.h"
#include "trainer/transport/port_gate.h"
#include "trainer/transport/test_deadline.h"
#include "trainer/transport/test_inbox.h"

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

uint16_t PortOf(const std::string& address) {
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  return static_cast<uint16_t>(port);
}

OwnedFd Connect(uint16_t port) {
  OwnedFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Loopback(port);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

OwnedFd Connect6(uint16_t port) {
  OwnedFd fd(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  address.sin6_port = htons(port);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

// Passes the bytes of one connection on, until it is told to swallow them: then both ends see a
// connection that is open and dumb. Told to reset it, it ends it as the system of a killed process
// does, whose peer has said something that nobody read.
class Proxy {
 public:
  explicit Proxy(uint16_t target) : target_(target), listening_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = Loopback(0);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(listening_.get(), 1), 0);
    EXPECT_EQ(getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Run(); });
  }
  ~Proxy() {
    stop_ = true;
    shutdown(listening_.get(), SHUT_RDWR);
    thread_.join();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  void Swallow() { swallow_ = true; }
  void Reset() { reset_ = true; }

 private:
  void Run() {
    const OwnedFd near(accept(listening_.get(), nullptr, nullptr));
    if (near.get() < 0) return;
    const OwnedFd far = Connect(target_);
    std::array<pollfd, 2> ends{pollfd{near.get(), POLLIN, 0}, pollfd{far.get(), POLLIN, 0}};
    std::vector<char> bytes(1 << 16);
    while (!stop_ && !reset_) {
      poll(ends.data(), ends.size(), 20);
      for (size_t i = 0; i < ends.size(); ++i) {
        if (ends[i].fd < 0 || (ends[i].revents & (POLLIN | POLLHUP)) == 0) continue;
        const ssize_t count = recv(ends[i].fd, bytes.data(), bytes.size(), 0);
        if (count <= 0) ends[i].fd = -1;  // stays open towards the other end
        if (count > 0 && !swallow_) {
          EXPECT_EQ(send((i == 0 ? far : near).get(), bytes.data(), count, MSG_NOSIGNAL), count);
        }
      }
    }
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    if (reset_) EXPECT_EQ(setsockopt(near.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
  }

  const uint16_t target_;
  const OwnedFd listening_;
  uint16_t port_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> swallow_ = false;
  std::atomic<bool> reset_ = false;
  std::thread thread_;
};

Record Ping() {
  Record record;
  record.header.op = WireOp::kPull;
  return record;
}

struct GrpcPair {
  explicit GrpcPair(GrpcTransportOptions options) : transport(MakeGrpcTransport(std::move(options))) {
    absl::StatusOr<std::unique_ptr<Listener>> listening = transport->Listen("127.0.0.1:0", far);
    EXPECT_TRUE(listening.ok()) << listening.status();
    if (listening.ok()) listener = *std::move(listening);
  }
  std::shared_ptr<Inbox> near = std::make_shared<Inbox>();
  std::shared_ptr<Inbox> far = std::make_shared<Inbox>(/*echo=*/true);
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Listener> listener;
};

TEST(GrpcTransportTest, AHostThatVanishesWithoutAWordIsNoticedByBothSides) {
  GrpcPair pair({.silence = absl::Seconds(3)});
  Proxy proxy(PortOf(pair.listener->address()));
  const std::shared_ptr<Stream> stream = pair.transport->Dial(proxy.address(), pair.near, absl::Seconds(5));
  stream->Send({Ping()});
  ASSERT_THAT(pair.near->AwaitSteps(1), SizeIs(1));
  proxy.Swallow();
  EXPECT_EQ(pair.near->AwaitClosed().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(pair.far->AwaitClosed().code(), absl::StatusCode::kUnavailable);
}

TEST(GrpcTransportTest, APeerThatHasSpokenAndIsKilledIsNotTakenForOneWithTls) {
  GrpcPair pair({});
  Proxy proxy(PortOf(pair.listener->address()));
  const std::shared_ptr<Stream> stream = pair.transport->Dial(proxy.address(), pair.near, absl::Seconds(5));
  stream->Send({Ping()});
  ASSERT_THAT(pair.near->AwaitSteps(1), SizeIs(1));
  proxy.Reset();
  const absl::Status status = pair.near->AwaitClosed();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("reset by peer"), Not(HasSubstr("TLS"))));
}

TEST(GrpcTransportTest, ATransportOverADumbConnectionIsDestroyedWithItsUnsentPayloads) {
  auto pair = std::make_unique<GrpcPair>(GrpcTransportOptions{});
  Proxy proxy(PortOf(pair->listener->address()));
  const std::shared_ptr<Stream> stream = pair->transport->Dial(proxy.address(), pair->near, absl::Seconds(5));
  stream->Send({Ping()});
  ASSERT_THAT(pair->near->AwaitSteps(1), SizeIs(1));
  proxy.Swallow();
  const auto memory = std::make_shared<std::vector<std::byte>>(1 << 20);
  for (int i = 0; i < 64; ++i) {
    Record record;
    record.header.op = WireOp::kPush;
    record.header.length = 1 << 20;
    record.payload = Payload(*memory, memory);
    stream->Send({std::move(record)});
  }
  const std::shared_ptr<Inbox> near = pair->near;
  const std::shared_ptr<Inbox> far = pair->far;
  pair.reset();
  EXPECT_FALSE(near->AwaitClosed().ok());
  EXPECT_FALSE(far->AwaitClosed().ok());
}

// Its end needs a lock that a thread which dials may hold.
class LockedEnd final : public StreamHandler {
 public:
  explicit LockedEnd(absl::Mutex& mutex) : mutex_(mutex) {}
  void OnMessage(const std::shared_ptr<Stream>& /*stream*/, std::span<Record> /*records*/) override {}
  void OnClosed(const std::shared_ptr<Stream>& /*stream*/, const absl::Status& /*status*/) override {
    ending_.Notify();
    absl::MutexLock lock(&mutex_);
    ended_.Notify();
  }
  bool AwaitEnding() { return ending_.WaitForNotificationWithTimeout(kSoonOverSockets); }
  bool AwaitEnded() { return ended_.WaitForNotificationWithTimeout(kSoonOverSockets); }

 private:
  absl::Mutex& mutex_;
  absl::Notification ending_;
  absl::Notification ended_;
};

TEST(GrpcTransportTest, AStreamMayEndInALockThatAThreadHoldsWhichDialsTheNext) {
  const std::unique_ptr<Transport> transport = MakeGrpcTransport({});
  absl::Mutex mutex;
  for (int i = 0; i < 100; ++i) {
    const auto first = std::make_shared<LockedEnd>(mutex);
    const auto second = std::make_shared<LockedEnd>(mutex);
    {
      absl::MutexLock lock(&mutex);
      transport->Dial("127.0.0.1:1", first, absl::Seconds(5));  // nobody listens there
      ASSERT_TRUE(first->AwaitEnding());
      transport->Dial("127.0.0.1:1", second, absl::Seconds(5));
    }
    ASSERT_TRUE(first->AwaitEnded());
    ASSERT_TRUE(second->AwaitEnded());
  }
}

TEST(GrpcTransportTest, AThousandSilentConnectionsAreDroppedAndAStreamBesideThemGoesOn) {
  GrpcPair pair({.greeting_deadline = absl::Seconds(2)});
  const uint16_t port = PortOf(pair.listener->address());
  std::vector<OwnedFd> silent;
  for (int i = 0; i < 1000; ++i) silent.push_back(Connect(port));
  const std::shared_ptr<Stream> stream = pair.transport->Dial(pair.listener->address(), pair.near, absl::Seconds(5));
  for (size_t i = 1; i <= 100; ++i) {
    stream->Send({Ping()});
    ASSERT_THAT(pair.near->AwaitSteps(i), SizeIs(i));
  }
  int dropped = 0;
  for (const OwnedFd& fd : silent) {
    pollfd end{fd.get(), POLLIN, 0};
    std::array<char, 256> bytes;
    while (poll(&end, 1, static_cast<int>(absl::ToInt64Milliseconds(kSoonOverSockets))) == 1) {  // what the server says, and then the end
      if (recv(fd.get(), bytes.data(), bytes.size(), 0) > 0) continue;
      ++dropped;
      break;
    }
  }
  EXPECT_EQ(dropped, 1000);
}

TEST(GrpcTransportTest, OfTooManyConnectionsThatNobodyTrustsTheOldestGoesAndATrustedOneStays) {
  for (const auto& [listens, dialled] : {std::pair("127.0.0.1:0", "127.0.0.1"), {"[::1]:0", "[::1]"}, {"0.0.0.0:0", "127.0.0.1"}}) {
    const auto door = std::make_shared<Inbox>(/*echo=*/true, /*trust=*/true);
    const auto near = std::make_shared<Inbox>();
    const std::unique_ptr<Transport> transport = MakeGrpcTransport({.most_untrusted = 4});
    const absl::StatusOr<std::unique_ptr<Listener>> listener = transport->Listen(listens, door);
    ASSERT_TRUE(listener.ok()) << listener.status();
    const uint16_t port = PortOf((*listener)->address());
    const std::shared_ptr<Stream> stream = transport->Dial(fmt::format("{}:{}", dialled, port), near, absl::Seconds(5));
    stream->Send({Ping()});
    ASSERT_THAT(near->AwaitSteps(1), SizeIs(1)) << listens;
    std::vector<OwnedFd> strangers;
    for (int i = 0; i < 20; ++i) {
      strangers.push_back(dialled == std::string_view("[::1]") ? Connect6(port) : Connect(port));
      EXPECT_EQ(send(strangers.back().get(), kHttp2Preface.data(), kHttp2Preface.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(kHttp2Preface.size()));
    }
    EXPECT_THAT(door->AwaitTurnedAway(16),
                testing::Contains(testing::HasSubstr("it has not identified itself, and 4 connections came after it")).Times(16));
    strangers.clear();
    for (int i = 0; i < 20; ++i) transport->Dial(fmt::format("{}:{}", dialled, port), std::make_shared<Inbox>(), absl::Seconds(5));
    EXPECT_TRUE(door->AwaitGone(20 + 16)) << listens;  // diallers that say nothing, with a stream already or not
    stream->Send({Ping()});
    EXPECT_THAT(near->AwaitSteps(2), SizeIs(2)) << listens;
  }
}

TEST(GrpcTransportTest, AConnectionThatEndsWithoutAStreamIsTold) {
  const auto door = std::make_shared<Inbox>(/*echo=*/true, /*trust=*/true);
  const std::unique_ptr<Transport> transport = MakeGrpcTransport({});
  const absl::StatusOr<std::unique_ptr<Listener>> listener = transport->Listen("127.0.0.1:0", door);
  ASSERT_TRUE(listener.ok()) << listener.status();
  {
    const OwnedFd stranger = Connect(PortOf((*listener)->address()));
    EXPECT_EQ(send(stranger.get(), kHttp2Preface.data(), kHttp2Preface.size(), MSG_NOSIGNAL), static_cast<ssize_t>(kHttp2Preface.size()));
  }
  EXPECT_THAT(door->AwaitTurnedAway(1), testing::ElementsAre(testing::HasSubstr("it opened no stream")));
}

}  // namespace
}  // namespace trainyard::engine
