#include "operator/kube/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "operator/api/json_read.h"
#include "operator/base/log.h"
#include "operator/base/status_macros.h"
#include "operator/kube/errors.h"
#include "operator/kube/list_decoder.h"
#include "operator/kube/object_parser.h"

namespace trainyard::control {
namespace {

using Json = nlohmann::json;

constexpr absl::Duration kFirstRetry = absl::Milliseconds(100);
constexpr absl::Duration kWatchGrace = absl::Seconds(30);
constexpr size_t kMaxToldWarnings = 200;
constexpr size_t kMaxWarningBytes = 500;

std::string What(std::string_view verb, const Resource& resource, std::string_view ns, std::string_view name,
                 std::string_view subresource = "") {
  std::string what = fmt::format("{} {}", verb, resource.plural);
  if (!subresource.empty()) what += fmt::format("/{}", subresource);
  if (!name.empty()) return fmt::format("{} {}", what, ObjectKey(ns, name));
  return ns.empty() ? what : fmt::format("{} in {}", what, ns);
}

void AddParameter(std::string& target, std::string_view name, std::string_view value) {
  if (value.empty()) return;
  target += fmt::format("{}{}={}", target.find('?') == std::string::npos ? '?' : '&', name, EscapeQuery(value));
}

const Json& Metadata(const Json& object) {
  static const Json* const kNone = new Json(Json::object());
  const auto it = object.find("metadata");
  return it != object.end() && it->is_object() ? *it : *kNone;
}

// 429 always says that nothing was done; a 5xx says so by asking to come back.
bool SaysComeBack(const HttpResponse& response) { return response.code == 429 || (response.code >= 500 && !response.retry_after.empty()); }

// Kept by finalizers, or by a pod's grace period.
bool LivesOn(const Json& object) {
  const Json& metadata = Metadata(object);
  if (!metadata.contains("deletionTimestamp")) return false;
  const auto finalizers = metadata.find("finalizers");
  if (finalizers != metadata.end() && finalizers->is_array() && !finalizers->empty()) return true;
  const auto grace = metadata.find("deletionGracePeriodSeconds");
  return grace != metadata.end() && grace->is_number_integer() && grace->get<int64_t>() > 0;
}

}  // namespace

std::string EscapeQuery(std::string_view text) {
  std::string escaped;
  for (const unsigned char c : text) {
    const bool unreserved =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
    if (unreserved) {
      escaped += static_cast<char>(c);
    } else {
      escaped += fmt::format("%{:02X}", c);
    }
  }
  return escaped;
}

Client::Client(Transport& transport, Throttle& throttle, Clock& clock, ClientOptions options)
    : transport_(transport), throttle_(throttle), clock_(clock), options_(std::move(options)) {
  for (const auto& [plural, fields] : options_.read) filters_.try_emplace(plural, fields, FieldFilter::Where::kObject);
}

absl::StatusOr<HttpResponse> Client::Ask(std::string_view verb, const std::string& what, HttpRequest request) {
  request.stop = stop_.get_token();
  const absl::Duration deadline = clock_.Monotonic() + request.timeout;
  const bool read_only = request.method == "GET";
  if (!read_only && options_.write_until) request.may_send = [this] { return clock_.Monotonic() < options_.write_until(); };
  absl::Duration backoff = kFirstRetry;
  for (int attempt = 1;; ++attempt) {
    if (absl::Status status = throttle_.Acquire(deadline, request.stop); !status.ok()) return WithContext(status, what);
    const absl::Duration began = clock_.Monotonic();
    if (request.may_send && !request.may_send()) {
      return absl::FailedPreconditionError(fmt::format("{}: not sent, because the lease is not held any more", what));
    }
    request.timeout = deadline - began;
    auto response = transport_.Send(request);
    Observe(verb, response.ok() ? response->code : 0, began);
    const bool last = attempt >= options_.max_attempts;
    if (!response.ok()) {
      const bool again = read_only && absl::IsUnavailable(response.status()) && !last && clock_.Monotonic() + backoff < deadline;
      if (!again) return WithContext(response.status(), what);
      if (!SleepFor(clock_, backoff, request.stop)) return absl::CancelledError(fmt::format("{}: stopping", what));
      backoff *= 2;
      continue;
    }
    if (!response->warning.empty()) TellWarning(what, response->warning);
    if (response->code < 400) return response;
    absl::Status status = StatusFromAnswer(what, response->code, response->body, response->retry_after);
    if (!SaysComeBack(*response)) return status;
    throttle_.PauseFor(RetryAfter(status).value_or(absl::Seconds(1)));
    if (last) return status;
  }
}

absl::StatusOr<Json> Client::Write(std::string_view verb, const Resource& resource, const std::string& what, HttpRequest request,
                                   const Json& body) {
  if (request.method != "DELETE") AddParameter(request.target, "fieldManager", options_.field_manager);
  // Text that came from outside (a log's tail) may be no UTF-8: it is replaced, not thrown at.
  request.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  request.timeout = options_.request_timeout;
  TY_ASSIGN_OR_RETURN(const HttpResponse response, Ask(verb, what, std::move(request)));
  return Read(resource, what, response.body);
}

absl::StatusOr<Json> Client::Read(const Resource& resource, const std::string& what, std::string_view text) const {
  const auto filter = filters_.find(resource.plural);
  auto object = ParseObject(text, filter == filters_.end() ? whole_ : filter->second);
  if (!object.ok()) return absl::DataLossError(fmt::format("{}: the answer is {}", what, std::string(object.status().message())));
  return object;
}

ReadFields Client::FieldsOf(const Resource& resource) const {
  const auto fields = options_.read.find(resource.plural);
  return fields == options_.read.end() ? std::nullopt : ReadFields(fields->second);
}

absl::StatusOr<Json> Client::Get(const Resource& resource, std::string_view ns, std::string_view name) {
  const std::string what = What("get", resource, ns, name);
  HttpRequest request{.target = resource.Path(ns, name), .timeout = options_.request_timeout};
  TY_ASSIGN_OR_RETURN(const HttpResponse response, Ask("get", what, std::move(request)));
  return Read(resource, what, response.body);
}

absl::StatusOr<std::string> Client::List(const Resource& resource, std::string_view ns, const ListOptions& options,
                                         const std::function<absl::Status(Json&&)>& on_item, const UnreadableHandler& on_unreadable) {
  const std::string what = What("list", resource, ns, "");
  ListDecoder decoder(what, FieldsOf(resource), kMaxObjectBytes, on_item, on_unreadable);
  std::string next;
  while (true) {
    HttpRequest request{.target = resource.Path(ns), .timeout = options_.request_timeout};
    AddParameter(request.target, "labelSelector", options.label_selector);
    AddParameter(request.target, "fieldSelector", options.field_selector);
    if (options.page_size > 0) AddParameter(request.target, "limit", std::to_string(options.page_size));
    if (next.empty()) AddParameter(request.target, "resourceVersion", options.resource_version);
    AddParameter(request.target, "continue", next);
    request.sink = &decoder;
    const auto response = Ask("list", what, std::move(request));
    TY_RETURN_IF_ERROR(decoder.problem());  // else it would look like a stop
    TY_RETURN_IF_ERROR(response.status());
    TY_ASSIGN_OR_RETURN(const Json list, decoder.Finish());
    const Json& metadata = Metadata(list);
    next = json_read::String(metadata, "continue");
    if (!next.empty()) continue;
    std::string version = json_read::String(metadata, "resourceVersion");
    if (version.empty()) return absl::DataLossError(fmt::format("{}: the answer has no metadata.resourceVersion", what));
    return version;
  }
}

absl::StatusOr<Json> Client::Create(const Resource& resource, std::string_view ns, const Json& object) {
  HttpRequest request{.method = "POST", .target = resource.Path(ns)};
  AddParameter(request.target, "fieldValidation", "Strict");
  return Write("create", resource, What("create", resource, ns, json_read::String(Metadata(object), "name")), std::move(request), object);
}

absl::StatusOr<Json> Client::Put(const Resource& resource, const Json& object, std::string_view subresource) {
  const std::string ns = json_read::String(Metadata(object), "namespace");
  const std::string name = json_read::String(Metadata(object), "name");
  if (name.empty()) return absl::InvalidArgumentError(fmt::format("update {}: the object has no metadata.name", resource.plural));
  HttpRequest request{.method = "PUT", .target = resource.Path(ns, name, subresource)};
  return Write("update", resource, What("update", resource, ns, name, subresource), std::move(request), object);
}

absl::StatusOr<Json> Client::Update(const Resource& resource, const Json& object) { return Put(resource, object, ""); }

absl::StatusOr<Json> Client::UpdateStatus(const Resource& resource, const Json& object) { return Put(resource, object, "status"); }

absl::StatusOr<Json> Client::Patch(const Resource& resource, std::string_view ns, std::string_view name, PatchType type, const Json& patch,
                                   std::string_view subresource) {
  HttpRequest request{.method = "PATCH", .target = resource.Path(ns, name, subresource)};
  switch (type) {
    case PatchType::kMerge:
      request.content_type = "application/merge-patch+json";
      break;
    case PatchType::kStrategic:
      request.content_type = "application/strategic-merge-patch+json";
      break;
    case PatchType::kJson:
      request.content_type = "application/json-patch+json";
      break;
    case PatchType::kApply:
      request.content_type = "application/apply-patch+yaml";
      AddParameter(request.target, "force", "true");
      break;
  }
  return Write("patch", resource, What("patch", resource, ns, name, subresource), std::move(request), patch);
}

absl::StatusOr<Json> Client::Delete(const Resource& resource, std::string_view ns, std::string_view name, const DeleteOptions& options) {
  Json body = {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}, {"propagationPolicy", options.propagation}};
  if (!options.uid.empty()) body["preconditions"]["uid"] = options.uid;
  if (!options.resource_version.empty()) body["preconditions"]["resourceVersion"] = options.resource_version;
  if (options.grace_period_seconds.has_value()) body["gracePeriodSeconds"] = *options.grace_period_seconds;
  HttpRequest request{.method = "DELETE", .target = resource.Path(ns, name)};
  TY_ASSIGN_OR_RETURN(Json object, Write("delete", resource, What("delete", resource, ns, name), std::move(request), body));
  return LivesOn(object) ? std::move(object) : Json();
}

absl::Status Client::Watch(const Resource& resource, std::string_view ns, const WatchOptions& options, std::stop_token stop,
                           const WatchEventHandler& on_event, const UnreadableHandler& on_unreadable) {
  const std::string what = What("watch", resource, ns, "");
  HttpRequest request{.target = resource.Path(ns), .timeout = options.timeout + kWatchGrace};
  AddParameter(request.target, "watch", "true");
  AddParameter(request.target, "allowWatchBookmarks", "true");
  AddParameter(request.target, "resourceVersion", options.resource_version);
  AddParameter(request.target, "timeoutSeconds", std::to_string(std::max<int64_t>(1, absl::ToInt64Seconds(options.timeout))));
  AddParameter(request.target, "labelSelector", options.label_selector);
  AddParameter(request.target, "fieldSelector", options.field_selector);

  request.stop = std::move(stop);
  TY_RETURN_IF_ERROR(WithContext(throttle_.Acquire(clock_.Monotonic() + options_.request_timeout, request.stop), what));
  WatchDecoder decoder(what, FieldsOf(resource), kMaxObjectBytes, on_event, on_unreadable);
  absl::Status problem;
  const absl::Duration began = clock_.Monotonic();
  auto response = transport_.Stream(request, options.idle, [&](std::string_view bytes) {
    problem = decoder.Feed(bytes);
    return problem.ok();
  });
  Observe("watch", response.ok() ? response->code : 0, began);
  if (!problem.ok()) return problem;
  if (!response.ok()) return WithContext(response.status(), what);
  if (response->code < 400) return decoder.Finish();
  absl::Status status = StatusFromAnswer(what, response->code, response->body, response->retry_after);
  if (SaysComeBack(*response)) throttle_.PauseFor(RetryAfter(status).value_or(absl::Seconds(1)));
  return status;
}

void Client::Observe(std::string_view verb, int code, absl::Duration began) {
  if (options_.observe) options_.observe(verb, code, clock_.Monotonic() - began);
}

void Client::TellWarning(const std::string& what, std::string warning) {
  warning.resize(std::min(warning.size(), kMaxWarningBytes));
  {
    MutexLock lock(mutex_);
    if (told_warnings_.size() >= kMaxToldWarnings || !told_warnings_.insert(warning).second) return;
  }
  LogWarning("{}: the API server warns: {}", what, warning);
}

}  // namespace trainyard::control
