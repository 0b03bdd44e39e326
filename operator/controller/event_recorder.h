// EventRecorder: what people see in `kubectl describe`, deduplicated, sent from a thread of its
// own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "operator/base/clock.h"
#include "operator/base/mutex.h"
#include "operator/controller/metrics.h"
#include "operator/kube/client.h"

namespace trainyard::control {

enum class EventType { kNormal, kWarning };

// The object that an event is about.
struct ObjectReference {
  std::string api_version{};
  std::string kind{};
  std::string ns{};
  std::string name{};
  std::string uid{};
  std::string resource_version{};
};

struct EventRecorderOptions {
  std::string controller = "trainyard.dev/operator";
  std::string instance{};                              // host or pod name
  size_t capacity = 10000;                             // waiting to be sent; more are dropped and counted
  size_t remembered = 1024;                            // recent events, for joining repeats into a series
  absl::Duration series_window = absl::Minutes(6);     // a repeat within it is counted, not created again
  absl::Duration series_interval = absl::Seconds(10);  // a growing count is written at most so often
  int max_attempts = 10;
};

// Thread-safe; Record never waits. Repeats (same object, type, reason and note) within the window
// become one events.k8s.io/v1 Event with a series count. Repeats of an event that is still waiting
// cost no request at all. An event that cannot be sent is tried again with growing waits. Events
// that are given up are counted and logged.
class EventRecorder {
 public:
  EventRecorder(Client& client, Clock& clock, ControllerMetrics& metrics, EventRecorderOptions options);
  ~EventRecorder();

  void Start();
  // `reason` and `action`: CamelCase, stable. `note`: for people, cut to 1 kB as the API asks.
  void Record(const ObjectReference& about, EventType type, std::string reason, std::string action, std::string note);
  // Sends what is waiting for at most `timeout`, then ends the thread. False when some were left.
  bool Stop(absl::Duration timeout);

 private:
  struct Event;
  struct Request;
  using Waiting = std::multimap<absl::Duration, std::shared_ptr<Event>>;  // by when it is due; in order of arrival within one instant

  void Run();
  void Wait(std::shared_ptr<Event> event, absl::Duration due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remember(const std::string& key, std::shared_ptr<Event> event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Request Compose(const Event& event) const;
  absl::Status Send(const Request& request) ABSL_LOCKS_EXCLUDED(mutex_);

  Client& client_;
  Clock& clock_;
  ControllerMetrics& metrics_;
  const EventRecorderOptions options_;
  Mutex mutex_;
  CondVar changed_;
  Waiting waiting_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, std::shared_ptr<Event>> recent_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> recent_order_ ABSL_GUARDED_BY(mutex_);  // oldest first
  uint64_t names_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool left_some_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration stop_deadline_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  std::thread thread_;
};

}  // namespace trainyard::control
