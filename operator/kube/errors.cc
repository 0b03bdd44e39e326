#include "operator/kube/errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "absl/strings/cord.h"
#include "operator/api/json_read.h"

namespace trainyard::control {
namespace {

constexpr char kReasonPayload[] = "trainyard.dev/kubernetes-reason";
constexpr char kCodePayload[] = "trainyard.dev/http-code";
constexpr char kRetryAfterPayload[] = "trainyard.dev/retry-after";
constexpr char kWordsPayload[] = "trainyard.dev/kubernetes-message";
constexpr char kCausePayload[] = "trainyard.dev/kubernetes-cause";
constexpr size_t kMaxMessage = 2048;  // a proxy's error page is no reason for a page in the log

struct Answer {
  int code = 0;
  std::string reason{};
  std::string message{};
  std::string cause{};
  std::string retry_after{};
};

// Reads what it can of a metav1.Status; leaves the rest as it was.
void ReadStatusObject(const nlohmann::json& object, Answer& answer) {
  if (!object.is_object()) return;
  answer.reason = json_read::String(object, "reason");
  answer.message = json_read::String(object, "message");
  if (const auto code = object.find("code"); code != object.end() && code->is_number_integer()) answer.code = code->get<int>();
  const auto details = object.find("details");
  if (details == object.end() || !details->is_object()) return;
  if (const auto seconds = details->find("retryAfterSeconds");
      seconds != details->end() && seconds->is_number_integer() && answer.retry_after.empty() && seconds->get<int64_t>() > 0) {
    answer.retry_after = std::to_string(seconds->get<int64_t>());
  }
  const auto causes = details->find("causes");
  if (causes != details->end() && causes->is_array() && !causes->empty() && causes->front().is_object()) {
    answer.cause = json_read::String(causes->front(), "reason");
  }
}

absl::StatusCode CodeFor(const Answer& answer) {
  switch (answer.code) {
    case 400:
    case 413:
    case 422:
      return absl::StatusCode::kInvalidArgument;
    case 401:
      return absl::StatusCode::kUnauthenticated;
    case 403:
      return absl::StatusCode::kPermissionDenied;
    case 404:
      return absl::StatusCode::kNotFound;
    case 409:
      return answer.reason == "AlreadyExists" ? absl::StatusCode::kAlreadyExists : absl::StatusCode::kAborted;
    case 410:
      return absl::StatusCode::kOutOfRange;
    case 429:
      return absl::StatusCode::kResourceExhausted;
    case 408:
    case 504:
      return absl::StatusCode::kDeadlineExceeded;
    default:
      return answer.code >= 500 ? absl::StatusCode::kUnavailable : absl::StatusCode::kUnknown;
  }
}

absl::Status MakeStatus(std::string_view what, const Answer& answer) {
  std::string message = answer.message.substr(0, kMaxMessage);
  std::replace_if(message.begin(), message.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  absl::Status status(CodeFor(answer),
                      fmt::format("{}: {} {}: {}", what, answer.code, answer.reason.empty() ? "(no reason)" : answer.reason,
                                  message.empty() ? "(no message)" : message));
  status.SetPayload(kCodePayload, absl::Cord(absl::string_view(std::to_string(answer.code))));
  if (!answer.reason.empty()) status.SetPayload(kReasonPayload, absl::Cord(absl::string_view(answer.reason)));
  if (!message.empty()) status.SetPayload(kWordsPayload, absl::Cord(absl::string_view(message)));
  if (!answer.cause.empty()) status.SetPayload(kCausePayload, absl::Cord(absl::string_view(answer.cause)));
  if (!answer.retry_after.empty()) status.SetPayload(kRetryAfterPayload, absl::Cord(absl::string_view(answer.retry_after)));
  return status;
}

std::string Payload(const absl::Status& status, const char* type_url) {
  const absl::optional<absl::Cord> payload = status.GetPayload(type_url);
  return payload.has_value() ? std::string(*payload) : std::string();
}

}  // namespace

absl::Status StatusFromAnswer(std::string_view what, int http_code, std::string_view body, std::string_view retry_after) {
  Answer answer{.code = http_code, .retry_after = std::string(retry_after)};
  const nlohmann::json object = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  ReadStatusObject(object, answer);
  answer.code = http_code;  // what HTTP says counts
  if (!object.is_object()) answer.message = std::string(body.substr(0, 200));
  return MakeStatus(what, answer);
}

absl::Status StatusFromObject(std::string_view what, std::string_view status_object) {
  Answer answer{.code = 500};
  ReadStatusObject(nlohmann::json::parse(status_object, nullptr, /*allow_exceptions=*/false), answer);
  if (answer.code < 400) answer.code = 500;
  return MakeStatus(what, answer);
}

std::string Reason(const absl::Status& status) { return Payload(status, kReasonPayload); }
std::string ServerWords(const absl::Status& status) { return Payload(status, kWordsPayload); }

int HttpCode(const absl::Status& status) {
  const std::string text = Payload(status, kCodePayload);
  int code = 0;
  std::from_chars(text.data(), text.data() + text.size(), code);
  return code;
}

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  const std::string text = Payload(status, kRetryAfterPayload);
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (text.empty() || error != std::errc() || seconds < 0) return std::nullopt;  // the date form of the header is not used by API servers
  return std::min(absl::Seconds(seconds), absl::Minutes(10));
}

bool IsConflict(const absl::Status& status) { return HttpCode(status) == 409 && Reason(status) != "AlreadyExists"; }
bool IsExpired(const absl::Status& status) { return HttpCode(status) == 410 || Reason(status) == "Expired"; }
bool IsForbidden(const absl::Status& status) { return HttpCode(status) == 403; }
bool IsInvalid(const absl::Status& status) { return HttpCode(status) == 422; }
bool IsNamespaceTerminating(const absl::Status& status) { return Payload(status, kCausePayload) == "NamespaceTerminating"; }

}  // namespace trainyard::control
