#include "operator/progress/progress_fetch.h"

#include <fmt/format.h>

#include <utility>

#include "operator/api/progress_json.h"
#include "operator/base/status_macros.h"
#include "operator/kube/curl_connection.h"
#include "operator/kube/endpoint.h"

namespace trainyard::control {
namespace {

constexpr size_t kMaxHeaderBytes = size_t{16} << 10;

absl::Status Unexpected(const std::string& url, int code) {
  const char* told = code == 503 ? "; it has told no step yet" : "";
  return absl::UnavailableError(fmt::format("GET {}: found code {}, expected 200{}", url, code, told));
}

absl::Status Problem(const std::string& url, const CurlAnswer& answer, bool too_long) {
  if (too_long) return absl::ResourceExhaustedError(fmt::format("GET {}: an answer of more than {} bytes", url, kMaxProgressBytes));
  switch (answer.end) {
    case CurlEnd::kDone:
      return Unexpected(url, answer.code);
    case CurlEnd::kStopped:
      return absl::CancelledError("stopping");
    case CurlEnd::kDeadline:
    case CurlEnd::kConnectTimeout:
      return absl::DeadlineExceededError(fmt::format("GET {}: no answer within {}", url, absl::FormatDuration(kProgressTimeout)));
    case CurlEnd::kHeadersTooLong:
      return absl::ResourceExhaustedError(fmt::format("GET {}: headers of more than {} bytes", url, kMaxHeaderBytes));
    default:
      return absl::UnavailableError(fmt::format("GET {}: {}", url, answer.problem));
  }
}

}  // namespace

ProgressFetch FetchFromPod(Clock& clock) {
  return [&clock](const ProgressTarget& target, std::stop_token stop) -> absl::StatusOr<std::string> {
    if (!IsIpAddress(target.ip))
      return absl::InvalidArgumentError(fmt::format("{} {}: its address \"{}\" is not an IP address", target.kind, target.name, target.ip));
    const bool ipv6 = target.ip.find(':') != std::string::npos;
    const std::string url = fmt::format("http://{}{}{}:{}/{}", ipv6 ? "[" : "", target.ip, ipv6 ? "]" : "", target.port, target.path);
    std::string body;
    bool too_long = false;
    CurlConnection connection(clock);
    const CurlAnswer answer = connection.Exchange({.url = url,
                                                   .deadline = clock.Monotonic() + kProgressTimeout,
                                                   .max_header_bytes = kMaxHeaderBytes,
                                                   .stop = std::move(stop),
                                                   .on_data = [&](int /*code*/, std::string_view bytes) {
                                                     too_long = body.size() + bytes.size() > kMaxProgressBytes;
                                                     if (!too_long) body += bytes;
                                                     return !too_long;
                                                   }});
    if (answer.end != CurlEnd::kDone || answer.code != 200) return Problem(url, answer, too_long);
    return body;
  };
}

ProgressFetch FetchThroughApiServer(Transport& transport) {
  return [&transport](const ProgressTarget& target, std::stop_token stop) -> absl::StatusOr<std::string> {
    const HttpRequest request{
        .target = fmt::format("/api/v1/namespaces/{}/{}/{}:{}/proxy/{}", target.ns, target.kind, target.name, target.port, target.path),
        .accept = "*/*",
        .timeout = kProgressTimeout,
        .max_body_bytes = kMaxProgressBytes,
        .max_header_bytes = kMaxHeaderBytes,
        .stop = std::move(stop)};
    absl::StatusOr<HttpResponse> answer = transport.Send(request);
    TY_RETURN_IF_ERROR(WithContext(answer.status(), request.target));
    if (answer->code != 200) {
      return absl::UnavailableError(fmt::format("GET {}: found code {}, expected 200", request.target, answer->code));
    }
    return std::move(answer->body);
  };
}

}  // namespace trainyard::control
