#include "trainer/transport/untrusted_connections.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "trainer/base/error_text.h"

namespace trainyard::engine {

UntrustedConnections::UntrustedConnections(size_t most, size_t most_opened)
    : most_(most), most_opened_(most_opened), epoll_(epoll_create1(EPOLL_CLOEXEC)) {}

absl::StatusOr<std::optional<std::string>> UntrustedConnections::Add(int socket, const std::string& peer) {
  OwnedFd watched(fcntl(socket, F_DUPFD_CLOEXEC, 0));
  epoll_event event{.events = EPOLLET, .data = {.fd = watched.get()}};  // EPOLLHUP and EPOLLERR always come
  if (watched.get() < 0 || epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, watched.get(), &event) != 0) {
    return ErrnoStatus(errno, "the connection cannot be watched");
  }
  absl::MutexLock lock(&mutex_);
  if (const auto before = by_peer_.find(peer); before != by_peer_.end()) Forget(before->second);
  std::optional<std::string> dropped;
  if (connections_.size() >= most_) {
    if (!connections_.front().opened) dropped = connections_.front().peer;
    shutdown(connections_.front().socket.get(), SHUT_RDWR);
    Forget(connections_.begin());
  }
  const int fd = watched.get();
  const auto added = connections_.insert(connections_.end(), {.socket = std::move(watched), .peer = peer});
  by_peer_[peer] = by_socket_[fd] = added;
  return dropped;
}

void UntrustedConnections::Opened(const std::string& peer) {
  absl::MutexLock lock(&mutex_);
  const auto found = by_peer_.find(peer);
  if (found == by_peer_.end()) return;
  if (static_cast<size_t>(std::ranges::count(connections_, true, &Connection::opened)) >= most_opened_) {
    const auto oldest = std::ranges::find(connections_, true, &Connection::opened);
    shutdown(oldest->socket.get(), SHUT_RDWR);
    Forget(oldest);
  }
  found->second->opened = true;
}

void UntrustedConnections::Trust(const std::string& peer) {
  absl::MutexLock lock(&mutex_);
  if (const auto found = by_peer_.find(peer); found != by_peer_.end()) Forget(found->second);
}

std::vector<std::string> UntrustedConnections::TakeEnded() {
  std::vector<std::string> ended;
  std::array<epoll_event, 64> events;
  absl::MutexLock lock(&mutex_);
  while (true) {
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    if (count <= 0) return ended;
    for (int i = 0; i < count; ++i) {
      const auto found = by_socket_.find(events[i].data.fd);
      if (found == by_socket_.end()) continue;
      if (!found->second->opened) ended.push_back(found->second->peer);
      Forget(found->second);
    }
  }
}

void UntrustedConnections::Forget(Connections::iterator connection) {
  // By hand: closing this file alone would leave it watched, since its owner's shares the open
  // connection (epoll(7)).
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection->socket.get(), nullptr);
  by_peer_.erase(connection->peer);
  by_socket_.erase(connection->socket.get());
  connections_.erase(connection);
}

}  // namespace trainyard::engine
