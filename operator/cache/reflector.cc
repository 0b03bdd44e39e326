#include "operator/cache/reflector.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "operator/base/log.h"
#include "operator/base/status_macros.h"
#include "operator/kube/errors.h"

namespace trainyard::control {
namespace {

double Random(double low, double high) {
  thread_local std::minstd_rand generator{std::random_device{}()};
  return std::uniform_real_distribution<double>(low, high)(generator);
}

// A version that the API server gives must be a number; 0 would list or watch from "any".
int64_t VersionNumber(const std::string& text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string VersionOf(const nlohmann::json& object) {
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object()) return "";
  const auto version = metadata->find("resourceVersion");
  return version != metadata->end() && version->is_string() ? version->get<std::string>() : "";
}

}  // namespace

Reflector::Reflector(Client& client, Clock& clock, const Resource& resource, ReflectorOptions options, ReflectorSink& sink)
    : client_(client), clock_(clock), resource_(resource), options_(std::move(options)), sink_(sink) {}

Reflector::~Reflector() { Stop(); }

void Reflector::Start() {
  Moved();
  thread_ = std::jthread([this](std::stop_token stop) { Run(std::move(stop)); });
}

void Reflector::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

absl::Status Reflector::Health() const {
  const absl::Duration still = clock_.Monotonic() - absl::Nanoseconds(moved_at_.load(std::memory_order_relaxed));
  if (still < options_.stuck_after) return absl::OkStatus();
  return absl::InternalError(fmt::format("{}{}: neither listed nor watched for {}", resource_.plural,
                                         options_.ns.empty() ? "" : " in " + options_.ns,
                                         absl::FormatDuration(absl::Trunc(still, absl::Seconds(1)))));
}

void Reflector::Run(std::stop_token stop) {
  absl::Duration backoff = options_.min_backoff;
  while (!stop.stop_requested()) {
    Moved();
    heard_ = false;
    absl::Status status;
    if (resource_version_.empty()) status = List();
    if (status.ok() && !stop.stop_requested()) status = WatchOnce(stop);
    if (stop.stop_requested()) return;
    if (heard_) backoff = options_.min_backoff;
    if (IsExpired(status)) {
      LogInfo("{}: version {} has expired at the API server: listing again", resource_.plural, resource_version_);
      resource_version_.clear();
    }
    if (absl::IsDataLoss(status)) resource_version_.clear();  // something may have been missed
    if (status.ok()) {
      // The server ended the watch in time: go on at once, unless it ends every watch without a
      // word.
      if (heard_) continue;
    } else if (!IsExpired(status) && !absl::IsDeadlineExceeded(status)) {
      LogWarning("{}: {}; trying again in about {}", resource_.plural, status.ToString(absl::StatusToStringMode::kWithNoExtraData),
                 absl::FormatDuration(backoff));
    }
    if (!SleepFor(clock_, backoff * Random(1.0, 2.0), stop)) return;
    backoff = std::min(backoff * 2, options_.max_backoff);
  }
}

void Reflector::Skip(const Unreadable& object) {
  sink_.Skip(object);
  Moved();
}

absl::Status Reflector::List() {
  ListOptions list{.label_selector = options_.label_selector, .field_selector = options_.field_selector, .page_size = options_.page_size};
  sink_.BeginReplace();
  TY_ASSIGN_OR_RETURN(std::string version, client_.List(
                                               resource_, options_.ns, list,
                                               [this](nlohmann::json&& item) {
                                                 sink_.ReplaceItem(std::move(item));
                                                 Moved();
                                                 return absl::OkStatus();
                                               },
                                               [this](const Unreadable& object) { Skip(object); }));
  if (VersionNumber(version) <= 0) {
    return absl::DataLossError(fmt::format("list {}: metadata.resourceVersion \"{}\" is not a number", resource_.plural, version));
  }
  sink_.EndReplace(VersionNumber(version));
  resource_version_ = std::move(version);
  heard_ = true;
  return absl::OkStatus();
}

absl::Status Reflector::WatchOnce(std::stop_token stop) {
  Moved();
  WatchOptions watch{.label_selector = options_.label_selector,
                     .field_selector = options_.field_selector,
                     .resource_version = resource_version_,
                     .timeout = options_.watch_timeout * Random(1.0, 1.25),
                     .idle = options_.watch_idle};
  return client_.Watch(
      resource_, options_.ns, watch, std::move(stop),
      [this](WatchEventType type, nlohmann::json&& object) {
        std::string version = VersionOf(object);
        if (VersionNumber(version) <= 0) {
          Skip(IdentifyObject(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                              "metadata.resourceVersion is not a number"));
          return absl::OkStatus();
        }
        sink_.Apply(type, std::move(object));
        Moved();
        resource_version_ = std::move(version);
        heard_ = true;
        return absl::OkStatus();
      },
      [this](const Unreadable& object) {
        Skip(object);
        if (VersionNumber(object.resource_version) > 0) resource_version_ = object.resource_version;
        heard_ = true;
      });
}

}  // namespace trainyard::control
