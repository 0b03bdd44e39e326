// The paths of the REST server: requests → answers, without sockets.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "trainer/serve/model_service.h"

namespace trainyard::engine {

struct HttpCall {
  std::string method;
  std::string path;  // decoded, without what is behind "?"
  std::string body;
  std::string json_bytes;  // the header Inference-Header-Content-Length; "": absent
};

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

// InvalidArgument → 400, NotFound → 404, FailedPrecondition → 409, ResourceExhausted → 429,
// Unavailable → 503, DeadlineExceeded → 504, others → 500.
int HttpStatusOf(const absl::Status& status);
// {"error": …}; 429 and 503 with Retry-After.
HttpAnswer ErrorAnswer(int status, std::string_view message);

// The Open Inference Protocol below /v2, TensorFlow Serving's REST below /v1, /healthz, /readyz and
// /metrics. Thread-safe; a call for predictions waits for them.
class HttpApi {
 public:
  explicit HttpApi(ModelService& service) : service_(service) {}
  HttpAnswer Answer(const HttpCall& call) const;

 private:
  ModelService& service_;
};

}  // namespace trainyard::engine
