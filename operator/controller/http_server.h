// HttpServer: /healthz, /readyz, /metrics or pages on one port, safe against every client.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "operator/controller/page_handler.h"

namespace prometheus {
class Registry;
}

namespace trainyard::control {

// A check behind /healthz or /readyz: OK, or why not. Must not wait: one thread answers all.
using HealthCheck = std::function<absl::Status()>;

struct HttpServerOptions {
  std::string host = "0.0.0.0";
  int port = 8080;  // 0: any free one
  // One connection more, and the oldest is closed. A request that is answered is never the oldest
  // for long; a request that never ends is.
  unsigned max_connections = 256;
  absl::Duration silence = absl::Seconds(10);  // a connection on which nothing moves for so long is closed
  absl::Duration longest = absl::Seconds(30);  // a connection that lives for longer is closed when the next comes
  // Connections that are streams of events: neither rule holds for them, so fewer than
  // max_connections. EventStreamOptions has their own.
  size_t max_streams = 0;
};

// Configure, then Start. One thread and its event loop (libmicrohttpd) serve all. So a slow client
// costs one connection and no more: 16 KiB for its request, whose body is not read. Clients that
// are slow to read share one text of metrics, which is made at most four times a second. Destructor
// stops.
class HttpServer {
 public:
  explicit HttpServer(HttpServerOptions options);
  ~HttpServer();

  void AddLiveness(std::string name, HealthCheck check);
  void AddReadiness(std::string name, HealthCheck check);
  void ServeMetrics(std::shared_ptr<prometheus::Registry> registry);
  // Answers every path that is none of the above.
  void ServePages(PageHandler pages);

  // The port that is listened on; Unavailable naming host and port when it is taken.
  absl::StatusOr<int> Start();
  void Stop();
  // Asks the sources of all streams for what is new. Thread-safe.
  void Wake();

 private:
  struct Server;
  std::unique_ptr<Server> server_;
};

}  // namespace trainyard::control
