#include "trainer/transport/port_gate.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "trainer/base/clock.h"
#include "trainer/base/error_text.h"
#include "trainer/base/owned_fd.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {
namespace {

constexpr std::string_view kTlsRecord = "\x16\x03";  // a handshake record of TLS 1.x
constexpr int kBacklog = 4096;
constexpr int kPauseMs = 100;  // of accepting, without files

std::string PeerName(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return fmt::format("ipv4:{}:{}", text.data(), ntohs(v4.sin_port));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text.data(), text.size());
    return fmt::format("ipv4:{}:{}", text.data(), ntohs(v6.sin6_port));
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  return fmt::format("ipv6:[{}]:{}", text.data(), ntohs(v6.sin6_port));
}

absl::Status CannotListen(const std::string& address, std::string_view why) {
  return absl::UnavailableError(fmt::format("cannot listen at {}: {}", address, why));
}

absl::StatusOr<OwnedFd> ListenAt(const std::string& address, const sockaddr* wanted, socklen_t length) {
  OwnedFd listening(socket(wanted->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  const int no = 0;
  if (listening.get() >= 0) setsockopt(listening.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (listening.get() >= 0 && wanted->sa_family == AF_INET6) setsockopt(listening.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  if (listening.get() < 0 || bind(listening.get(), wanted, length) != 0 || listen(listening.get(), kBacklog) != 0) {
    const int error = errno;
    return CannotListen(address,
                        fmt::format("{}{}", ErrorText(error),
                                    error == EADDRINUSE ? " (another process uses the port; stop it or choose another port)" : ""));
  }
  return listening;
}

absl::StatusOr<OwnedFd> ListenAt(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return CannotListen(address, "expected host:port");
  std::string host = address.substr(0, colon);
  const std::string port = address.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "0.0.0.0") {
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(static_cast<uint16_t>(std::strtoul(port.c_str(), nullptr, 10)));
    absl::StatusOr<OwnedFd> both = ListenAt(address, reinterpret_cast<const sockaddr*>(&any), sizeof any);
    if (both.ok()) return both;  // else the machine may have no IPv6
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0)
    return CannotListen(address, gai_strerror(error));
  absl::StatusOr<OwnedFd> listening = ListenAt(address, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return listening;
}

class EpollGate final : public PortGate {
 public:
  EpollGate(OwnedFd listening, PortGateOptions options, std::shared_ptr<UntrustedConnections> untrusted, Admit admit, TurnAway turn_away)
      : options_(options),
        untrusted_(std::move(untrusted)),
        admit_(std::move(admit)),
        turn_away_(std::move(turn_away)),
        listening_(std::move(listening)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

  absl::Status Start() {
    if (wake_.get() < 0 || epoll_.get() < 0 || untrusted_->events() < 0 || !Watch(wake_.get(), EPOLLIN) ||
        !Watch(listening_.get(), EPOLLIN) || !Watch(untrusted_->events(), EPOLLIN)) {
      return absl::ResourceExhaustedError(fmt::format("a port cannot be watched: {}", ErrorText(errno)));
    }
    thread_ = std::thread([this] { Serve(); });
    return absl::OkStatus();
  }

  ~EpollGate() override {
    const uint64_t one = 1;
    if (!thread_.joinable()) return;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
    thread_.join();
  }

  int port() const override {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    if (getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return 0;
    return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                               : reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }

 private:
  struct Connection {
    OwnedFd socket;
    std::string peer;
    absl::Time due;
  };
  using Connections = std::list<Connection>;  // the oldest first

  bool Watch(int fd, uint32_t events) {
    epoll_event event{.events = events, .data = {.fd = fd}};
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }

  void SetAccepting(bool accepting) {
    accepting_ = accepting;
    epoll_event event{.events = accepting ? static_cast<uint32_t>(EPOLLIN) : 0U, .data = {.fd = listening_.get()}};
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listening_.get(), &event);
  }

  void Serve() {
    std::array<epoll_event, 256> events;
    while (true) {
      const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), NextWaitMs());
      if (!accepting_) SetAccepting(true);
      for (int i = 0; i < count; ++i) {
        const int fd = events[i].data.fd;
        if (fd == wake_.get()) return;
        if (fd == listening_.get()) {
          AcceptSome();
        } else if (fd == untrusted_->events()) {
          TellEnded();
        } else if (const auto found = by_socket_.find(fd); found != by_socket_.end()) {
          Look(found->second);
        }
      }
      while (!waiting_.empty() && waiting_.front().due <= RealClock().Now()) {
        Drop(waiting_.begin(), fmt::format("no {} greeting within {}", Protocol(), absl::FormatDuration(options_.deadline)));
      }
    }
  }

  std::string_view Protocol() const { return options_.tls ? "TLS" : "HTTP/2"; }

  int NextWaitMs() const {
    if (!accepting_) return kPauseMs;
    if (waiting_.empty()) return -1;
    return static_cast<int>(std::clamp<int64_t>(absl::ToInt64Milliseconds(waiting_.front().due - RealClock().Now()) + 1, 0, 60'000));
  }

  void AcceptSome() {
    for (int i = 0; i < 256; ++i) {  // then the others have their turn
      sockaddr_storage address{};
      socklen_t length = sizeof address;
      OwnedFd socket(accept4(listening_.get(), reinterpret_cast<sockaddr*>(&address), &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket.get() < 0) {
        if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) return;
        if (waiting_.empty()) return SetAccepting(false);  // no files, no memory
        Drop(waiting_.begin(), "it has not said anything yet, and the process is out of files; raise their limit (ulimit -n)");
        continue;
      }
      if (waiting_.size() >= options_.most_waiting) {
        Drop(waiting_.begin(), fmt::format("it has not said anything yet, and {} came after it", waiting_.size()));
      }
      const int fd = socket.get();
      // As gRPC does for what it accepts itself: Nagle's algorithm and delayed acknowledgements
      // would cost 40 ms a step.
      const int at_once = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
      if (!Watch(fd, EPOLLIN | EPOLLRDHUP | EPOLLET)) continue;
      by_socket_[fd] = waiting_.insert(waiting_.end(), {std::move(socket), PeerName(address), RealClock().Now() + options_.deadline});
    }
  }

  void Look(Connections::iterator connection) {
    std::array<char, kHttp2Preface.size()> bytes;
    const ssize_t count = recv(connection->socket.get(), bytes.data(), bytes.size(), MSG_PEEK);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return Forget(connection);  // it has gone of its own accord, as probes do
    const std::string_view said(bytes.data(), static_cast<size_t>(count));
    switch (JudgeFirstBytes(said, options_.tls)) {
      case FirstBytes::kUnfinished:
        return;
      case FirstBytes::kGood:
        return LetIn(connection);
      case FirstBytes::kBad:
        if (JudgeFirstBytes(said, !options_.tls) == FirstBytes::kGood) {
          return Drop(connection, options_.tls ? "it speaks HTTP/2 without TLS: it has no certificate of this job"
                                               : "it speaks TLS, and this job has no certificates");
        }
        return Drop(connection, fmt::format("it does not speak {}: it begins with '{}'", Protocol(),
                                            absl::CHexEscape(std::string(said.substr(0, 16)))));
    }
  }

  void LetIn(Connections::iterator connection) {
    const absl::StatusOr<std::optional<std::string>> dropped = untrusted_->Add(connection->socket.get(), connection->peer);
    if (!dropped.ok()) return Drop(connection, std::string(dropped.status().message()));
    if (*dropped) {
      turn_away_(**dropped, absl::InvalidArgumentError(
                                fmt::format("it has not identified itself, and {} connections came after it", untrusted_->most())));
    }
    const int fd = connection->socket.Release();
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
    by_socket_.erase(fd);
    waiting_.erase(connection);
    admit_(fd);
  }

  void TellEnded() {
    for (const std::string& peer : untrusted_->TakeEnded()) {
      turn_away_(peer, absl::InvalidArgumentError(
                           options_.tls ? "its TLS handshake has failed (does it have a certificate of this job?), or it opened no stream"
                                        : "it opened no stream"));
    }
  }

  void Drop(Connections::iterator connection, const std::string& why) {
    const std::string peer = connection->peer;
    Forget(connection);
    turn_away_(peer, absl::InvalidArgumentError(why));
  }

  void Forget(Connections::iterator connection) {
    by_socket_.erase(connection->socket.get());
    waiting_.erase(connection);
  }

  const PortGateOptions options_;
  const std::shared_ptr<UntrustedConnections> untrusted_;
  const Admit admit_;
  const TurnAway turn_away_;
  const OwnedFd listening_;
  const OwnedFd wake_;
  const OwnedFd epoll_;
  // Of the thread.
  Connections waiting_;
  std::map<int, Connections::iterator> by_socket_;
  bool accepting_ = true;
  std::thread thread_;
};

}  // namespace

FirstBytes JudgeFirstBytes(std::string_view bytes, bool tls) {
  const std::string_view expected = tls ? kTlsRecord : kHttp2Preface;
  const size_t count = std::min(bytes.size(), expected.size());
  if (bytes.substr(0, count) != expected.substr(0, count)) return FirstBytes::kBad;
  return count == expected.size() ? FirstBytes::kGood : FirstBytes::kUnfinished;
}

absl::StatusOr<std::unique_ptr<PortGate>> PortGate::Listen(const std::string& address, PortGateOptions options,
                                                           std::shared_ptr<UntrustedConnections> untrusted, Admit admit,
                                                           TurnAway turn_away) {
  TY_ASSIGN_OR_RETURN(OwnedFd listening, ListenAt(address));
  auto gate = std::make_unique<EpollGate>(std::move(listening), options, std::move(untrusted), std::move(admit), std::move(turn_away));
  TY_RETURN_IF_ERROR(gate->Start());
  return gate;
}

}  // namespace trainyard::engine
