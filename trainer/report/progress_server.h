// GET /progress (JSON), /metrics (Prometheus text) and /healthz of one replica.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "trainer/report/progress.h"

namespace trainyard::engine {

struct ProgressServerOptions {
  std::string host = "0.0.0.0";
  int port = 0;  // 0: any free one
  std::string role = "worker";
  int index = 0;
};

// Answers from its own threads (at most two requests at a time); stopped and joined by the
// destructor. Thread-safe.
class ProgressServer {
 public:
  // Unavailable names host and port when it is in use.
  static absl::StatusOr<std::unique_ptr<ProgressServer>> Start(const ProgressServerOptions& options);
  ~ProgressServer();
  ProgressServer(const ProgressServer&) = delete;
  ProgressServer& operator=(const ProgressServer&) = delete;

  void Update(Progress progress);
  int port() const;

 private:
  struct State;
  explicit ProgressServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace trainyard::engine
