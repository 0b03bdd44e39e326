// HttpServer: /healthz, /readyz, /metrics and whatever main adds (the dashboard), on one port.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace prometheus {
class Registry;
}

namespace trainyard::control {

struct HttpPage {
  int code = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body{};
};

// A GET handler: called from the server's threads with the query's parameters.
using PageHandler = std::function<HttpPage(const std::string& path, const std::map<std::string, std::string>& query)>;

// A check behind /healthz or /readyz: OK, or why not.
using HealthCheck = std::function<absl::Status()>;

struct HttpServerOptions {
  std::string host = "0.0.0.0";
  int port = 8080;  // 0: any free one
};

// Configure, then Start; two threads serve, each request is bounded in size and time. Destructor stops.
class HttpServer {
 public:
  explicit HttpServer(HttpServerOptions options);
  ~HttpServer();

  void AddLiveness(std::string name, HealthCheck check);
  void AddReadiness(std::string name, HealthCheck check);
  void ServeMetrics(std::shared_ptr<prometheus::Registry> registry);
  // `pattern`: a regular expression over the path.
  void AddPage(std::string pattern, PageHandler handler);

  // The port that is listened on; Unavailable naming host and port when it is taken.
  absl::StatusOr<int> Start();
  void Stop();

 private:
  struct Server;
  std::unique_ptr<Server> server_;
};

}  // namespace trainyard::control
