// inference.GRPCInferenceService: the Open Inference Protocol over gRPC.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/serve/model_service.h"

namespace trainyard::engine {

struct GrpcServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;     // 0: any free one
  int calls = 128;  // without an answer at once; others end with RESOURCE_EXHAUSTED
  size_t request_bytes = size_t{16} << 20;
  absl::Duration drain = absl::Seconds(10);  // at the end, for the calls that have come
};

// Answers from gRPC's threads. The destructor takes no new calls, and waits for those that there
// are.
class GrpcServer {
 public:
  // Unavailable names host and port when it is in use. `service` must outlive it.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const GrpcServerOptions& options, ModelService& service);
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  int port() const;

 private:
  struct State;
  explicit GrpcServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace trainyard::engine
