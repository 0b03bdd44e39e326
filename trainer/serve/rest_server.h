// The REST server's sockets and threads.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/serve/http_api.h"

namespace trainyard::engine {

struct RestServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: any free one
  int connections = 128;
  size_t request_bytes = size_t{16} << 20;  // of a body
  absl::Duration timeout;                   // of an answer, from when its request has come
};

// Answers from threads of its own, one for each connection. The destructor takes no new
// connections, and answers the requests that have come.
class RestServer {
 public:
  // Unavailable names host and port when it is in use. `api` must outlive it.
  static absl::StatusOr<std::unique_ptr<RestServer>> Start(const RestServerOptions& options, const HttpApi& api);
  ~RestServer();
  RestServer(const RestServer&) = delete;
  RestServer& operator=(const RestServer&) = delete;

  int port() const;

 private:
  struct State;
  explicit RestServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace trainyard::engine
