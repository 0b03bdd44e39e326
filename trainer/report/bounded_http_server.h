// cpp-httplib's server, for clients that are slow, silent or many.
#pragma once

#include <httplib.h>

#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace trainyard::engine {

struct HttpBounds {
  int connections = 128;                            // each has a thread of its own
  size_t request_bytes = 64 << 10;                  // of a request's line, headers and body: the library would read a line without an end
  size_t body_bytes = 64 << 10;                     // of its body
  absl::Duration read_deadline = absl::Seconds(2);  // for a request to come, from the connection's acceptance or its first byte
  absl::Duration answer_deadline = absl::ZeroDuration();  // for its answer to be made and sent, from then on
  absl::Duration idle = absl::ZeroDuration();             // a connection waits this long for another request; zero: it has one
};

// Threads are started when they are needed, up to the number of connections. Further connections
// wait in the kernel's queue and in one as long. A connection that waits for another request makes
// room for them, and so does a new one that is silent for half a second. So a client that says
// nothing, a byte a second, or a line without an end holds up nobody else. A request that the
// library would not read to its end as it stands is the connection's last one: several lengths, a
// packed or multipart body, a GET with a body, a very long path, a broken chunked body, a length
// that is not a number. A handler gets a chunked body whole, with a Content-Length.
class BoundedHttpServer final : public httplib::Server {
 public:
  static constexpr size_t kMostTargetBytes = 1024;  // of a path; a longer one ends the connection

  // Why the body of a request is not read: a status and the words for it. Such a request is to be
  // refused, with "Connection: close".
  struct Refusal {
    int status = 0;
    std::string why;
  };
  static std::optional<Refusal> RefusalOf(const httplib::Request& request);

  explicit BoundedHttpServer(const HttpBounds& bounds = {});
  // Takes no new connections, answers the requests that have come, each with "Connection: close",
  // and joins all threads.
  ~BoundedHttpServer() override;

  // Listens from a thread of its own, once; 0 is any free port. Handlers are set before.
  // Unavailable names host and port when they cannot be had for `what`.
  absl::Status Start(std::string_view what, const std::string& host, int port);
  int port() const { return port_; }

 private:
  class Connections;
  bool process_and_close_socket(socket_t socket) override;
  // False: none comes in time, or the connection makes room for others.
  bool AwaitRequest(socket_t socket, bool first) const;

  const HttpBounds bounds_;
  std::atomic<Connections*> connections_ = nullptr;  // the library's own, while it listens
  int port_ = 0;
  std::thread thread_;
};

}  // namespace trainyard::engine
