// Reflector: keeps a sink equal to the API server's objects of one resource, by list and watch.
#pragma once

#include <atomic>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "operator/base/clock.h"
#include "operator/kube/client.h"

namespace trainyard::control {

// Where a reflector puts what it sees. Called from the reflector's thread only.
class ReflectorSink {
 public:
  virtual ~ReflectorSink() = default;
  virtual void BeginReplace() = 0;
  virtual void ReplaceItem(nlohmann::json&& object) = 0;
  // An object that was not among the items since BeginReplace, and is not newer than the list, is
  // gone.
  virtual void EndReplace(int64_t list_version) = 0;
  virtual void Apply(WatchEventType type, nlohmann::json&& object) = 0;
  // An item or an event whose object cannot be read: the sink's to report. It stops neither list
  // nor watch, and the last known state of the object stays.
  virtual void Skip(const Unreadable& object) = 0;
};

struct ReflectorOptions {
  std::string ns{};  // empty: all
  std::string label_selector{};
  std::string field_selector{};
  int64_t page_size = 200;
  absl::Duration watch_timeout = absl::Minutes(8);  // each watch ends after a random 1x to 1.25x of it, so that they do not end together
  absl::Duration watch_idle = absl::Minutes(2);     // bookmarks come each minute: silence of twice that is a dead connection
  absl::Duration min_backoff = absl::Milliseconds(800);
  absl::Duration max_backoff = absl::Seconds(30);
  absl::Duration stuck_after = absl::Minutes(5);  // longer than any of its waits: a reflector that has not moved for so long is not well
};

// List, then watch from the list's version on. A broken watch goes on where it was. Expired,
// DataLoss, or a list that failed, lists again. Waits between attempts grow from min to max
// backoff, with jitter, and start over once something arrived.
class Reflector {
 public:
  Reflector(Client& client, Clock& clock, const Resource& resource, ReflectorOptions options, ReflectorSink& sink);
  ~Reflector();

  void Start();
  // Returns when the thread has ended.
  void Stop();
  // OK, or why the reflector is not well. An API server that does not answer is not a reason: a
  // fresh process would fare no better. Thread-safe.
  absl::Status Health() const;

 private:
  void Run(std::stop_token stop);
  void Moved() { moved_at_.store(absl::ToInt64Nanoseconds(clock_.Monotonic()), std::memory_order_relaxed); }
  absl::Status List();
  absl::Status WatchOnce(std::stop_token stop);
  void Skip(const Unreadable& object);

  Client& client_;
  Clock& clock_;
  const Resource resource_;
  const ReflectorOptions options_;
  ReflectorSink& sink_;
  std::string resource_version_;               // empty: must list
  bool heard_ = false;                         // something arrived since the last wait
  std::atomic<int64_t> moved_at_ = INT64_MAX;  // in ns of Clock::Monotonic(); before the start never
  std::jthread thread_;
};

}  // namespace trainyard::control
