// Connections that were let in and have not identified themselves: bounded in number, and told of
// when they end without a stream.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "trainer/base/owned_fd.h"

namespace trainyard::engine {

// Each costs its owner, gRPC, some 80 KB and 1 MB of address space, and this class a file. A
// connection with a stream costs gRPC up to a whole message, which its handler sees once it is
// complete. So there may be fewer of these. Peers are named as gRPC names them. Thread-safe.
class UntrustedConnections {
 public:
  // Of more than `most` the oldest is shut down; of more than `most_opened` with a stream the
  // oldest of these.
  UntrustedConnections(size_t most, size_t most_opened);
  size_t most() const { return most_; }

  // `socket` stays its owner's. The answer is the peer that was shut down for this connection. It
  // is empty if that peer has opened a stream, whose handler hears of its end. An error: there is
  // no file to watch it by.
  absl::StatusOr<std::optional<std::string>> Add(int socket, const std::string& peer) ABSL_LOCKS_EXCLUDED(mutex_);
  // It has opened a stream, whose handler hears of its end.
  void Opened(const std::string& peer) ABSL_LOCKS_EXCLUDED(mutex_);
  // It has identified itself: it counts no longer.
  void Trust(const std::string& peer) ABSL_LOCKS_EXCLUDED(mutex_);

  // Readable when a connection has ended.
  int events() const { return epoll_.get(); }
  // Those that have ended since the last call and never opened a stream.
  std::vector<std::string> TakeEnded() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Connection {
    OwnedFd socket;
    std::string peer;
    bool opened = false;
  };
  using Connections = std::list<Connection>;  // the oldest first

  void Forget(Connections::iterator connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t most_;
  const size_t most_opened_;
  const OwnedFd epoll_;
  absl::Mutex mutex_;
  Connections connections_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Connections::iterator> by_peer_ ABSL_GUARDED_BY(mutex_);
  std::map<int, Connections::iterator> by_socket_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trainyard::engine
