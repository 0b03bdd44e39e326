#include "operator/controller/event_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "operator/base/log.h"
#include "operator/base/timestamp.h"
#include "operator/kube/errors.h"

namespace trainyard::control {
namespace {

constexpr size_t kMaxNote = 1024;       // of events.k8s.io/v1
constexpr size_t kMaxNamePrefix = 200;  // a name may have 253 characters
constexpr absl::Duration kFirstRetry = absl::Seconds(1);
constexpr absl::Duration kLongestRetry = absl::Minutes(1);

std::string_view TypeName(EventType type) { return type == EventType::kNormal ? "Normal" : "Warning"; }

// At most `limit` bytes, cut before a UTF-8 character rather than within it.
void CutText(std::string& text, size_t limit) {
  if (text.size() <= limit) return;
  size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  text.resize(end);
}

// Sending it again cannot help.
bool IsHopeless(const absl::Status& status) {
  return IsForbidden(status) || IsInvalid(status) || HttpCode(status) == 400 || absl::IsNotFound(status);
}

}  // namespace

struct EventRecorder::Event {
  ObjectReference about;
  EventType type;
  std::string reason;
  std::string action;
  std::string note;
  std::string name{};
  absl::Time first_time{};
  absl::Time last_time{};
  int count = 1;
  bool created = false;  // at the API server
  bool waiting = false;
  int attempts = 0;
  absl::Duration seen_at{};
  absl::Duration sent_at{};
};

struct EventRecorder::Request {
  bool grows;  // the series of an event that the API server has; else a new event
  std::string ns;
  std::string name;
  nlohmann::json body;
};

EventRecorder::EventRecorder(Client& client, Clock& clock, ControllerMetrics& metrics, EventRecorderOptions options)
    : client_(client), clock_(clock), metrics_(metrics), options_(std::move(options)) {}

EventRecorder::~EventRecorder() { Stop(absl::ZeroDuration()); }

void EventRecorder::Start() {
  thread_ = std::thread([this] { Run(); });
}

void EventRecorder::Record(const ObjectReference& about, EventType type, std::string reason, std::string action, std::string note) {
  CutText(note, kMaxNote);
  const std::string key = fmt::format("{}|{}|{}|{}|{:x}", about.uid, about.name, TypeName(type), reason, std::hash<std::string>{}(note));
  const absl::Time now = clock_.Now();
  const absl::Duration mono = clock_.Monotonic();
  MutexLock lock(mutex_);
  if (stopping_) {
    metrics_.EventDropped();
    return;
  }
  const auto known = recent_.find(key);
  if (known != recent_.end() && mono - known->second->seen_at < options_.series_window) {
    const std::shared_ptr<Event>& event = known->second;
    ++event->count;
    event->last_time = now;
    event->seen_at = mono;
    if (!event->waiting) Wait(event, event->sent_at + options_.series_interval);
    return;
  }
  if (waiting_.size() >= options_.capacity) {
    metrics_.EventDropped();
    return;
  }
  auto event = std::make_shared<Event>(Event{about, type, std::move(reason), std::move(action), std::move(note)});
  event->name = fmt::format("{}.{:x}{:x}", about.name.substr(0, kMaxNamePrefix), absl::ToUnixNanos(now), ++names_);
  event->first_time = event->last_time = now;
  event->seen_at = mono;
  Remember(key, event);
  Wait(std::move(event), mono);
}

void EventRecorder::Wait(std::shared_ptr<Event> event, absl::Duration due) {
  event->waiting = true;
  const auto place = waiting_.emplace(due, std::move(event));
  if (place == waiting_.begin()) changed_.NotifyAll();
}

void EventRecorder::Remember(const std::string& key, std::shared_ptr<Event> event) {
  if (recent_.insert_or_assign(key, std::move(event)).second) recent_order_.push_back(key);
  while (recent_order_.size() > options_.remembered) {
    recent_.erase(recent_order_.front());
    recent_order_.pop_front();
  }
}

void EventRecorder::Run() {
  MutexLock lock(mutex_);
  while (true) {
    const absl::Duration now = clock_.Monotonic();
    if (stopping_ && (waiting_.empty() || now >= stop_deadline_)) break;
    // The end does not wait for intervals, only for what failed.
    const bool due = !waiting_.empty() && (waiting_.begin()->first <= now || (stopping_ && waiting_.begin()->second->attempts == 0));
    if (!due) {
      const absl::Duration next = waiting_.empty() ? absl::InfiniteDuration() : waiting_.begin()->first;
      clock_.WaitUntil(changed_, mutex_, std::min(next, stop_deadline_));
      continue;
    }
    const std::shared_ptr<Event> event = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    event->waiting = false;  // a repeat from here on queues it again, for after series_interval
    event->sent_at = now;
    const Request request = Compose(*event);
    mutex_.Unlock();
    const absl::Status status = Send(request);
    mutex_.Lock();
    if (status.ok()) {
      event->created = true;
      event->attempts = 0;
      metrics_.EventSent();
      continue;
    }
    if (request.grows && absl::IsNotFound(status)) {
      event->created = false;  // it expired at the API server: write it anew
    } else if (IsHopeless(status) || ++event->attempts >= options_.max_attempts) {
      metrics_.EventDropped();
      LogWarning("event {} about {} given up: {}", event->reason, ObjectKey(event->about.ns, event->about.name),
                 status.ToString(absl::StatusToStringMode::kWithNoExtraData));
      continue;
    }
    const absl::Duration backoff = std::min(kFirstRetry * static_cast<double>(uint64_t{1} << std::min(event->attempts, 20)), kLongestRetry);
    if (!event->waiting) Wait(event, clock_.Monotonic() + backoff);
  }
  left_some_ = !waiting_.empty();
  for (size_t i = 0; i < waiting_.size(); ++i) metrics_.EventDropped();
}

EventRecorder::Request EventRecorder::Compose(const Event& event) const {
  const std::string ns = event.about.ns.empty() ? "default" : event.about.ns;
  nlohmann::json series;
  if (event.count > 1) series = {{"count", event.count}, {"lastObservedTime", FormatMicroTimestamp(event.last_time)}};
  if (event.created) return {true, ns, event.name, {{"series", series}}};

  nlohmann::json regarding = {
      {"apiVersion", event.about.api_version}, {"kind", event.about.kind}, {"name", event.about.name}, {"uid", event.about.uid}};
  if (!event.about.ns.empty()) regarding["namespace"] = event.about.ns;
  if (!event.about.resource_version.empty()) regarding["resourceVersion"] = event.about.resource_version;
  nlohmann::json object = {{"apiVersion", kEvents.ApiVersion()},
                           {"kind", kEvents.kind},
                           {"metadata", {{"namespace", ns}, {"name", event.name}}},
                           {"eventTime", FormatMicroTimestamp(event.first_time)},
                           {"reportingController", options_.controller},
                           {"reportingInstance", options_.instance.empty() ? options_.controller : options_.instance},
                           {"action", event.action},
                           {"reason", event.reason},
                           {"regarding", regarding},
                           {"note", event.note},
                           {"type", TypeName(event.type)}};
  if (!series.is_null()) object["series"] = series;
  return {false, ns, event.name, std::move(object)};
}

absl::Status EventRecorder::Send(const Request& request) {
  if (request.grows) return client_.Patch(kEvents, request.ns, request.name, PatchType::kMerge, request.body).status();
  const absl::Status status = client_.Create(kEvents, request.ns, request.body).status();
  // An earlier attempt was done, and only its answer lost.
  return absl::IsAlreadyExists(status) ? absl::OkStatus() : status;
}

bool EventRecorder::Stop(absl::Duration timeout) {
  {
    MutexLock lock(mutex_);
    if (!stopping_) stop_deadline_ = clock_.Monotonic() + timeout;
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
  MutexLock lock(mutex_);
  return !left_some_;
}

}  // namespace trainyard::control
