// EventRecorder: what people see in `kubectl describe`, deduplicated, sent from a thread of its own.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>
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

// What an event is about.
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
  std::string instance{};                           // host or pod name
  size_t capacity = 10000;                          // waiting to be sent; more are dropped and counted
  size_t remembered = 4096;                         // recent events, for joining repeats into a series
  absl::Duration series_window = absl::Minutes(6);  // a repeat within it is counted, not created again
  int max_attempts = 10;
};

// Thread-safe; Record never waits. The same (object, type, reason, note) within the window becomes one event with a series count, and
// repeats that are still waiting are joined before anything is sent.
class EventRecorder {
 public:
  EventRecorder(Client& client, Clock& clock, ControllerMetrics& metrics, EventRecorderOptions options);
  ~EventRecorder();

  void Start();
  // `reason` and `action`: CamelCase, stable. `note`: for people, cut to 1 kB.
  void Record(const ObjectReference& about, EventType type, std::string reason, std::string action, std::string note);
  // Sends what is waiting for at most `timeout`, then ends the thread. False when some were left.
  bool Stop(absl::Duration timeout);

 private:
  struct Event;
  void Run();
  bool Send(Event& event);

  Client& client_;
  Clock& clock_;
  ControllerMetrics& metrics_;
  const EventRecorderOptions options_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<Event>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, std::shared_ptr<Event>> recent_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> recent_order_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration stop_deadline_ ABSL_GUARDED_BY(mutex_);
  std::stop_source give_up_;
  std::thread thread_;
};

}  // namespace trainyard::control
