// Client: the verbs of the Kubernetes API on JSON objects.
//
//   auto pod = client.Create(kPods, "default", pod_json);
//   if (absl::IsAlreadyExists(pod.status())) …
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "operator/api/resource.h"
#include "operator/base/clock.h"
#include "operator/base/mutex.h"
#include "operator/kube/field_filter.h"
#include "operator/kube/throttle.h"
#include "operator/kube/transport.h"
#include "operator/kube/unreadable.h"
#include "operator/kube/watch_event.h"

namespace trainyard::control {

struct ClientOptions {
  std::string field_manager = "trainyard-operator";
  absl::Duration request_timeout = absl::Seconds(30);
  int max_attempts = 5;  // for answers that say that nothing was done (429, 503 with Retry-After) and for GETs that met a dead connection
  // Told of each answer: verb as Kubernetes names it (get list create update patch delete watch),
  // code (0: no answer), time taken.
  std::function<void(std::string_view verb, int code, absl::Duration took)> observe{};
  // Until when (Clock::Monotonic()) what is written is written by right, as the holder of a lease;
  // empty: always. Asked before each write, last when its connection stands: a write that is late
  // is not sent (FailedPrecondition).
  std::function<absl::Duration()> write_until{};
  // By Resource::plural: the fields that are read of each answer's and event's objects. Fewer
  // fields are less to parse. Objects of other kinds keep everything but managedFields.
  std::map<std::string, std::vector<std::string>, std::less<>> read{};
};

// Of an object's JSON text. No API server takes a longer request body; a longer object is not read.
inline constexpr size_t kMaxObjectBytes = size_t{3} << 20;

struct ListOptions {
  std::string label_selector{};
  std::string field_selector{};
  std::string resource_version{};  // "0": from the server's cache
  int64_t page_size = 500;
};

struct WatchOptions {
  std::string label_selector{};
  std::string field_selector{};
  std::string resource_version{};
  absl::Duration timeout = absl::Minutes(8);  // asked of the server; the connection is given up 30 s later
  absl::Duration idle = absl::Minutes(9);     // given up when nothing came for so long
};

struct DeleteOptions {
  std::string uid{};  // precondition; empty: whichever object has the name
  std::string resource_version{};
  std::optional<int> grace_period_seconds{};
  std::string_view propagation = "Background";
};

// kStrategic: lists are merged by their keys, such as owner references by uid; of built-in kinds
// only.
enum class PatchType { kMerge, kStrategic, kJson, kApply };

// Thread-safe. Errors carry what kube/errors.h reads and name verb, resource and object. Objects
// come back with what ClientOptions::read names.
class Client {
 public:
  Client(Transport& transport, Throttle& throttle, Clock& clock, ClientOptions options = {});

  absl::StatusOr<nlohmann::json> Get(const Resource& resource, std::string_view ns, std::string_view name);
  // Hands each item of all pages to `on_item`; returns the list's resourceVersion. Items carry no
  // kind. An item that cannot be read goes to `on_unreadable`, and the others follow. A page that
  // is asked for again, because its connection broke, brings its items again. Stops at the first
  // error of `on_item`. An expired continue token (410) in the middle ends it with IsExpired: start
  // again.
  absl::StatusOr<std::string> List(const Resource& resource, std::string_view ns, const ListOptions& options,
                                   const std::function<absl::Status(nlohmann::json&&)>& on_item, const UnreadableHandler& on_unreadable);
  // An unknown or repeated field of the object is an error (400), and not dropped in silence.
  absl::StatusOr<nlohmann::json> Create(const Resource& resource, std::string_view ns, const nlohmann::json& object);
  // Namespace and name are the object's. With metadata.resourceVersion set, Conflict when the
  // stored object has another.
  absl::StatusOr<nlohmann::json> Update(const Resource& resource, const nlohmann::json& object);
  absl::StatusOr<nlohmann::json> UpdateStatus(const Resource& resource, const nlohmann::json& object);
  absl::StatusOr<nlohmann::json> Patch(const Resource& resource, std::string_view ns, std::string_view name, PatchType type,
                                       const nlohmann::json& patch, std::string_view subresource = "");
  // The object as it is now when it lives on for a while (grace period, finalizers). A null value
  // when it is gone.
  absl::StatusOr<nlohmann::json> Delete(const Resource& resource, std::string_view ns, std::string_view name,
                                        const DeleteOptions& options = {});
  // Hands every event to `on_event` until the watch ends:
  // - OK: the server ended it.
  // - Cancelled: `stop` was requested.
  // - The error of `on_event`.
  // - The status of an ERROR event. IsExpired means: list again.
  // - DataLoss: a line cannot be read. List again, something may be missing.
  // - DeadlineExceeded: silence.
  // An event whose object cannot be read goes to `on_unreadable`, and the next follows.
  absl::Status Watch(const Resource& resource, std::string_view ns, const WatchOptions& options, std::stop_token stop,
                     const WatchEventHandler& on_event, const UnreadableHandler& on_unreadable);

  // From now on every call but Watch (which has its own stop) ends with Cancelled, those under way
  // too: whether they were done is unknown.
  void Stop() { stop_.request_stop(); }

 private:
  // Throttles, sends, tries again what may be tried again, and turns answers from 400 on into
  // errors.
  absl::StatusOr<HttpResponse> Ask(std::string_view verb, const std::string& what, HttpRequest request);
  absl::StatusOr<nlohmann::json> Write(std::string_view verb, const Resource& resource, const std::string& what, HttpRequest request,
                                       const nlohmann::json& body);
  absl::StatusOr<nlohmann::json> Read(const Resource& resource, const std::string& what, std::string_view text) const;
  ReadFields FieldsOf(const Resource& resource) const;
  absl::StatusOr<nlohmann::json> Put(const Resource& resource, const nlohmann::json& object, std::string_view subresource);
  void Observe(std::string_view verb, int code, absl::Duration began);
  void TellWarning(const std::string& what, std::string warning);

  Transport& transport_;
  Throttle& throttle_;
  Clock& clock_;
  const ClientOptions options_;
  const FieldFilter whole_{std::nullopt, FieldFilter::Where::kObject};
  std::map<std::string, FieldFilter, std::less<>> filters_;  // of single objects, by plural; as options_.read
  std::stop_source stop_;
  Mutex mutex_;
  std::set<std::string> told_warnings_ ABSL_GUARDED_BY(mutex_);  // each is logged once; bounded
};

// "a%2Fb" for "a/b": every byte that is not unreserved (RFC 3986).
std::string EscapeQuery(std::string_view text);

}  // namespace trainyard::control
