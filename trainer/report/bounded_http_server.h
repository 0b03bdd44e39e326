// cpp-httplib's server, for clients that are slow, silent or many.
#pragma once

#include <httplib.h>

namespace trainyard::engine {

// Every connection gets one request of at most kMostRequestBytes, and at most kConnectionDeadline
// for it, from its acceptance on. It gets a thread of its own: threads are started when they are
// needed, up to kMostConnections. Further connections wait in the kernel's queue and in one as
// long. So a client that says nothing, a byte a second, or a line without an end holds up nobody
// else.
class BoundedHttpServer final : public httplib::Server {
 public:
  static constexpr int kMostConnections = 128;
  static constexpr int kConnectionDeadlineMs = 2000;
  static constexpr size_t kMostRequestBytes = 64 << 10;  // its line, headers and body: the library would read a line without an end

  BoundedHttpServer();

 private:
  bool process_and_close_socket(socket_t socket) override;
};

}  // namespace trainyard::engine
