#include "trainer/transport/port_gate.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/base/owned_fd.h"
#include "trainer/transport/test_deadline.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

TEST(JudgeFirstBytesTest, APrefaceIsGoodAPartOfItUnfinishedAllElseBad) {
  EXPECT_EQ(JudgeFirstBytes(kHttp2Preface, false), FirstBytes::kGood);
  EXPECT_EQ(JudgeFirstBytes(fmt::format("{}more", kHttp2Preface), false), FirstBytes::kGood);
  EXPECT_EQ(JudgeFirstBytes(kHttp2Preface.substr(0, 5), false), FirstBytes::kUnfinished);
  EXPECT_EQ(JudgeFirstBytes("", false), FirstBytes::kUnfinished);
  EXPECT_EQ(JudgeFirstBytes("GET / HTTP/1.1", false), FirstBytes::kBad);
  EXPECT_EQ(JudgeFirstBytes("\x16\x03\x01", false), FirstBytes::kBad);
}

TEST(JudgeFirstBytesTest, WithTlsARecordOfAHandshakeIsGood) {
  EXPECT_EQ(JudgeFirstBytes("\x16\x03\x01", true), FirstBytes::kGood);
  EXPECT_EQ(JudgeFirstBytes("\x16", true), FirstBytes::kUnfinished);
  EXPECT_EQ(JudgeFirstBytes(kHttp2Preface, true), FirstBytes::kBad);
}

// The connections that a gate lets in and turns away.
class Inside {
 public:
  explicit Inside(PortGateOptions options, const std::string& address = "127.0.0.1:0") {
    absl::StatusOr<std::unique_ptr<PortGate>> listening = PortGate::Listen(
        address, options, std::make_shared<UntrustedConnections>(256, 256),
        [this](int socket) {
          int at_once = 0;
          socklen_t length = sizeof at_once;
          getsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &at_once, &length);
          absl::MutexLock lock(&mutex_);
          ++admitted_;
          at_once_ += at_once != 0 ? 1 : 0;
          close(socket);
        },
        [this](const std::string& /*peer*/, const absl::Status& why) {
          absl::MutexLock lock(&mutex_);
          reasons_.emplace_back(why.message());
        });
    EXPECT_TRUE(listening.ok()) << listening.status();
    gate_ = *std::move(listening);
  }

  int port() const { return gate_->port(); }
  bool AwaitAdmitted(int count) {
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return admitted_ >= count; };
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&enough), kSoonOverSockets);
  }
  // Of the admitted connections: how many send without Nagle's delay.
  int at_once() {
    absl::MutexLock lock(&mutex_);
    return at_once_;
  }
  std::vector<std::string> AwaitReasons(size_t count) {
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return reasons_.size() >= count; };
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&enough), kSoonOverSockets);
    return reasons_;
  }

 private:
  absl::Mutex mutex_;
  int admitted_ ABSL_GUARDED_BY(mutex_) = 0;
  int at_once_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> reasons_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<PortGate> gate_;
};

class Client {
 public:
  explicit Client(int port, std::string_view says = "") : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    Say(says);
  }
  void Say(std::string_view text) const {
    if (!text.empty()) {
      EXPECT_EQ(send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    }
  }

 private:
  OwnedFd fd_;
};

TEST(PortGateTest, AStreamsFirstBytesAreLetInHoweverTheyAreCut) {
  Inside inside({});
  const Client whole(inside.port(), kHttp2Preface);
  ASSERT_TRUE(inside.AwaitAdmitted(1));
  const Client cut(inside.port(), kHttp2Preface.substr(0, 7));
  cut.Say(kHttp2Preface.substr(7, 9));
  cut.Say(kHttp2Preface.substr(16));
  EXPECT_TRUE(inside.AwaitAdmitted(2));
}

TEST(PortGateTest, AConnectionThatIsLetInSendsWithoutNaglesDelay) {
  Inside inside({});
  const Client client(inside.port(), kHttp2Preface);
  ASSERT_TRUE(inside.AwaitAdmitted(1));
  EXPECT_EQ(inside.at_once(), 1);
}

TEST(PortGateTest, WhatDoesNotBeginAsAStreamIsTurnedAwayWithItsFirstBytes) {
  Inside inside({});
  const Client web(inside.port(), "GET / HTTP/1.1\r\n\r\n");
  EXPECT_THAT(inside.AwaitReasons(1).at(0), HasSubstr("it does not speak HTTP/2: it begins with 'GET / HTTP/1.1\\r\\n'"));
}

TEST(PortGateTest, SilenceEndsAtTheDeadlineAndAfterAHalfGreetingToo) {
  Inside inside({.deadline = absl::Milliseconds(50)});
  const Client silent(inside.port());
  const Client half(inside.port(), "PRI");
  EXPECT_THAT(inside.AwaitReasons(2), testing::Each(HasSubstr("no HTTP/2 greeting within 50ms")));
}

TEST(PortGateTest, OfTooManyThatWaitTheOldestGoesAndWhoSpeaksIsLetIn) {
  Inside inside({.deadline = kSoonOverSockets, .most_waiting = 4});
  std::vector<Client> silent;
  for (int i = 0; i < 10; ++i) silent.emplace_back(inside.port());
  const Client good(inside.port(), kHttp2Preface);
  EXPECT_TRUE(inside.AwaitAdmitted(1));
  EXPECT_THAT(inside.AwaitReasons(6).at(0), HasSubstr("it has not said anything yet, and 4 came after it"));
}

TEST(PortGateTest, ASecondGateAtOnePortIsToldWhy) {
  Inside inside({});
  const auto second = PortGate::Listen(
      fmt::format("127.0.0.1:{}", inside.port()), {}, std::make_shared<UntrustedConnections>(256, 256), [](int) {},
      [](const std::string&, const absl::Status&) {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("another process uses the port"));
}

TEST(PortGateTest, AllInterfacesAreOneAddress) {
  Inside inside({}, "0.0.0.0:0");
  const Client good(inside.port(), kHttp2Preface);
  EXPECT_TRUE(inside.AwaitAdmitted(1));
}

}  // namespace
}  // namespace trainyard::engine
