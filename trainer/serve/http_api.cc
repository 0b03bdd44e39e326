#include "trainer/serve/http_api.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "trainer/base/clock.h"
#include "trainer/base/status_macros.h"
#include "trainer/serve/json_body.h"
#include "trainer/serve/quoted.h"
#include "trainer/serve/tensorflow_json.h"
#include "trainer/serve/v2_json.h"

namespace trainyard::engine {
namespace {

constexpr char kJsonBytesHeader[] = "Inference-Header-Content-Length";
constexpr std::string_view kV2Models = "/v2/models/";
constexpr std::string_view kV1Models = "/v1/models/";

// /v2/models/NAME[/versions/V][/ACTION] and /v1/models/NAME[/versions/V][/metadata | :predict].
struct ModelPath {
  std::string name;
  std::string version;  // "": none
  std::string action;   // "": none; ":classify" and the like for another verb than predict
};

std::optional<ModelPath> ParseModelPath(std::string rest) {
  ModelPath path;
  if (const size_t colon = rest.rfind(':'); colon != std::string::npos && rest.find('/', colon) == std::string::npos) {
    path.action = rest.substr(colon) == ":predict" ? "predict" : rest.substr(colon);
    rest.resize(colon);
  }
  std::vector<std::string> parts = absl::StrSplit(rest, '/');
  if (parts[0].empty()) return std::nullopt;
  path.name = parts[0];
  size_t at = 1;
  if (parts.size() >= 3 && parts[1] == "versions" && !parts[2].empty()) {
    path.version = parts[2];
    at = 3;
  }
  if (parts.size() > at + 1 || (parts.size() == at + 1 && (!path.action.empty() || parts[at].empty()))) return std::nullopt;
  if (parts.size() == at + 1) path.action = parts[at];
  return path;
}

HttpAnswer ErrorOf(const absl::Status& status) { return ErrorAnswer(HttpStatusOf(status), std::string(status.message())); }

HttpAnswer Json(std::string body) { return {.body = std::move(body), .headers = {}}; }

HttpAnswer NotFound(const HttpCall& call) {
  return ErrorAnswer(404,
                     fmt::format("path: found {}, expected one of /v2/models/NAME/infer, /v1/models/NAME:predict, /v2, /v2/health/ready, "
                                 "/v2/health/live, /v2/models/NAME, /v1/models/NAME, /healthz, /readyz, /metrics",
                                 InQuotes(call.path)));
}

HttpAnswer WrongMethod(const HttpCall& call, const std::string& expected) {
  HttpAnswer answer = ErrorAnswer(405, fmt::format("method: found {}, expected {} for {}", call.method, expected, InQuotes(call.path)));
  answer.headers.emplace_back("Allow", expected);
  return answer;
}

HttpAnswer ReadyAnswer(bool ready, std::string_view what) {
  if (ready) return Json("{\"ready\":true}");
  return ErrorAnswer(503, fmt::format("{} is not ready: no version is loaded yet, or the server is about to end", what));
}

absl::StatusOr<HttpAnswer> InferV2(ModelService& service, ServedModel& model, const HttpCall& call) {
  std::optional<size_t> json_bytes;
  if (!call.json_bytes.empty()) {
    if (uint64_t bytes = 0; absl::SimpleAtoi(call.json_bytes, &bytes)) json_bytes = bytes;
    if (!json_bytes) {
      return absl::InvalidArgumentError(
          fmt::format("header {}: found {}, expected a number of bytes", kJsonBytesHeader, InQuotes(call.json_bytes)));
    }
  }
  TY_ASSIGN_OR_RETURN(const InferRequest request, ParseV2Infer(call.body, json_bytes, model.signature()));
  TY_ASSIGN_OR_RETURN(const InferAnswer result, service.InferAndWait(model, request));
  V2Body body = V2InferBody(request, result, model.signature(), service.name());
  HttpAnswer answer = Json(std::move(body.body));
  if (body.json_bytes) {
    answer.type = "application/octet-stream";
    answer.headers.emplace_back(kJsonBytesHeader, std::to_string(*body.json_bytes));
  }
  return answer;
}

absl::StatusOr<HttpAnswer> PredictTensorFlow(ModelService& service, ServedModel& model, const HttpCall& call) {
  TY_ASSIGN_OR_RETURN(const TensorFlowRequest request, ParseTensorFlowPredict(call.body, model.signature()));
  TY_ASSIGN_OR_RETURN(const InferAnswer result, service.InferAndWait(model, request.request));
  return Json(TensorFlowPredictBody(request, result, model.signature()));
}

// With its time and status among the metrics.
template <typename Predict>
HttpAnswer Measured(ModelService& service, std::string_view protocol, const ModelPath& path, const Predict& predict) {
  const absl::Time begin = RealClock().Now();
  const auto answered = [&]() -> absl::StatusOr<HttpAnswer> {
    TY_ASSIGN_OR_RETURN(const std::shared_ptr<ServedModel> model, service.Find(path.name, path.version));
    return predict(*model);
  }();
  HttpAnswer answer = answered.ok() ? *answered : ErrorOf(answered.status());
  service.metrics().AddRequest(protocol, answer.status, RealClock().Now() - begin);
  return answer;
}

HttpAnswer AnswerV2Model(ModelService& service, const HttpCall& call, const ModelPath& path) {
  if (path.action == "infer") {
    if (call.method != "POST") return WrongMethod(call, "POST");
    return Measured(service, "v2", path, [&](ServedModel& model) { return InferV2(service, model, call); });
  }
  if (!path.action.empty() && path.action != "ready") return NotFound(call);
  if (call.method != "GET") return WrongMethod(call, "GET");
  const absl::StatusOr<std::shared_ptr<ServedModel>> model = service.Find(path.name, path.version);
  if (!model.ok()) return ErrorOf(model.status());
  if (path.action == "ready") return ReadyAnswer(service.ready(), "the model");
  return Json(V2ModelBody((*model)->signature(), service.name(), (*model)->version()));
}

HttpAnswer AnswerTensorFlowModel(ModelService& service, const HttpCall& call, const ModelPath& path) {
  if (path.action == "predict") {
    if (call.method != "POST") return WrongMethod(call, "POST");
    return Measured(service, "tensorflow", path, [&](ServedModel& model) { return PredictTensorFlow(service, model, call); });
  }
  if (path.action.starts_with(':')) {
    return ErrorAnswer(404, fmt::format("path: found the verb {} in {}, expected :predict", InQuotes(path.action), InQuotes(call.path)));
  }
  if (!path.action.empty() && path.action != "metadata") return NotFound(call);
  if (call.method != "GET") return WrongMethod(call, "GET");
  const absl::StatusOr<std::shared_ptr<ServedModel>> model = service.Find(path.name, path.version);
  if (!model.ok()) return ErrorOf(model.status());
  if (path.action.empty()) return Json(TensorFlowStatusBody((*model)->version()));
  return Json(TensorFlowMetadataBody((*model)->signature(), service.name(), (*model)->version()));
}

// The paths without a model; nothing for others.
std::optional<HttpAnswer> AnswerFixed(const ModelService& service, const HttpCall& call) {
  HttpAnswer answer;
  if (call.path == "/healthz") {
    answer = {.type = "text/plain", .body = "ok\n", .headers = {}};
  } else if (call.path == "/readyz" || call.path == "/v2/health/ready") {
    answer = ReadyAnswer(service.ready(), "the server");
  } else if (call.path == "/metrics") {
    answer = {.type = "text/plain; version=0.0.4", .body = service.MetricsText(), .headers = {}};
  } else if (call.path == "/v2") {
    answer = Json(V2ServerBody());
  } else if (call.path == "/v2/health/live") {
    answer = Json("{\"live\":true}");
  } else {
    return std::nullopt;
  }
  return call.method == "GET" ? answer : WrongMethod(call, "GET");
}

}  // namespace

int HttpStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
      return 400;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kFailedPrecondition:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

HttpAnswer ErrorAnswer(int status, std::string_view message) {
  HttpAnswer answer = Json(JsonText({{"error", message}}));
  answer.status = status;
  if (status == 429 || status == 503) answer.headers.emplace_back("Retry-After", "1");
  return answer;
}

HttpAnswer HttpApi::Answer(const HttpCall& call) const {
  if (std::optional<HttpAnswer> fixed = AnswerFixed(service_, call)) return *std::move(fixed);
  const bool v2 = call.path.starts_with(kV2Models);
  if (!v2 && !call.path.starts_with(kV1Models)) return NotFound(call);
  const std::optional<ModelPath> path = ParseModelPath(call.path.substr(kV2Models.size()));
  if (!path) return NotFound(call);
  return v2 ? AnswerV2Model(service_, call, *path) : AnswerTensorFlowModel(service_, call, *path);
}

}  // namespace trainyard::engine
