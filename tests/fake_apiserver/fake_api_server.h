// FakeApiServer: what the operator's tests use instead of a cluster: objects, versions, watches
// and, above all, faults.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "operator/api/resource.h"
#include "operator/base/clock.h"
#include "operator/base/mutex.h"
#include "operator/kube/transport.h"

namespace trainyard::control {

struct Target;

// One request that reached the server.
struct ApiCall {
  std::string verb{};      // get list watch create update patch delete
  std::string resource{};  // "pods", "trainingjobs/status"
  std::string ns{};
  std::string name{};
  int code = 0;  // what was answered; 0: the connection broke

  bool IsWrite() const { return verb != "get" && verb != "list" && verb != "watch"; }
};

// A fault of the requests that match; each fault acts `times` times, after having let `skip`
// matches pass. The k…Watch kinds strike watches that are already open too; `skip` is nothing to
// them.
struct Fault {
  enum class Kind {
    kAnswer,        // `code` and `reason` instead of doing it
    kRefuse,        // no connection: not done
    kLoseAnswer,    // done, but the answer is lost
    kHalfAnswer,    // done; half of the answer's body comes
    kDropWatch,     // the watch ends after `skip_events` events
    kStallWatch,    // the watch goes silent after `skip_events` events, without ending
    kGarbageWatch,  // the watch sends a line that is no JSON
    kExpireWatch,   // an ERROR event with 410 in the watch
  };
  Kind kind = Kind::kAnswer;
  std::string verb{};      // empty: any
  std::string resource{};  // empty: any; "pods", "trainingjobs/status"
  std::string name{};      // empty: any
  int code = 500;
  std::string reason = "InternalError";
  std::string message = "injected by the test";
  std::string retry_after{};  // header
  int skip = 0;
  int times = 1;
  int skip_events = 0;
};

// A Transport in process. Thread-safe. Stores any resource that a path names, with
// - optimistic concurrency by resourceVersion, generation counted over spec changes, generateName;
// - the status subresource of kinds that have one;
// - finalizers, delete preconditions, garbage collection by owner references when asked;
// - graceful deletion of running pods: they stay Terminating until FinishPod or Remove;
// - label and field (metadata.name, spec.nodeName, status.phase) selectors, paged lists;
// - watches from a version with bookmarks, 410 for versions before Compact().
class FakeApiServer : public Transport {
 public:
  explicit FakeApiServer(Clock& clock);
  ~FakeApiServer() override;

  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override;
  absl::StatusOr<HttpResponse> Stream(const HttpRequest& request, absl::Duration idle,
                                      const std::function<bool(std::string_view)>& on_data) override;

  // ---- the cluster's other actors: no faults, no log of calls ----
  // Creates or replaces (spec and status) as given, with uid, version and time stamped; returns
  // what is stored.
  nlohmann::json Put(const Resource& resource, nlohmann::json object);
  // Merge patch (RFC 7386) of what is stored, status included: Edit(kPods, "default", "a",
  // {{"status", {{"phase", "Running"}}}}).
  nlohmann::json Edit(const Resource& resource, std::string_view ns, std::string_view name, const nlohmann::json& patch);
  std::optional<nlohmann::json> Find(const Resource& resource, std::string_view ns, std::string_view name);
  std::vector<nlohmann::json> All(const Resource& resource, std::string_view ns = "");
  // At once, whatever its finalizers and grace period.
  bool Remove(const Resource& resource, std::string_view ns, std::string_view name);
  // The objects whose owner (by uid) is gone are deleted, as the garbage collector would; repeated
  // until none is left.
  void CollectGarbage();
  // Watches from an older version get 410; continue tokens too.
  void Compact();
  void SendBookmarks();

  // ---- faults ----
  void Inject(Fault fault);
  void ClearFaults();
  // The n-th (from 0) write from now on, and everything after it, gets no answer: the client was
  // killed there. The n-th itself is done (kAfter) or not (kBefore). Reset with Revive. Returns
  // nothing; Crashed() tells whether it came to pass.
  enum class CrashPoint { kBefore, kAfter };
  void CrashAtWrite(int n, CrashPoint point);
  bool Crashed();
  void Revive();

  // ---- what happened ----
  std::vector<ApiCall> Calls();
  int Writes();  // that were answered with success
  void ForgetCalls();
  // Waits (really, at most 10 s) until `condition` holds; it is asked again after each change of an
  // object or call. False when it never did.
  bool Await(const std::function<bool()>& condition);
  int OpenWatches();

 private:
  struct Change {
    int64_t version;
    std::string type;
    nlohmann::json object;
    nlohmann::json before;  // null for ADDED
  };
  struct Collection {
    std::map<std::string, nlohmann::json> objects;  // by "ns/name"
    std::deque<Change> history;
    int64_t compacted = 0;
  };

  absl::StatusOr<HttpResponse> Respond(const HttpRequest& request);
  HttpResponse Serve(const HttpRequest& request, const Target& target) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  HttpResponse List(Collection& collection, const Target& target) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  HttpResponse Create(Collection& collection, const Target& target, nlohmann::json object) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  HttpResponse Replace(Collection& collection, const Target& target, nlohmann::json object) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  HttpResponse Patch(Collection& collection, const Target& target, const std::string& type, const nlohmann::json& patch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  HttpResponse Delete(Collection& collection, const Target& target, const nlohmann::json& options) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  nlohmann::json Commit(Collection& collection, const std::string& key, nlohmann::json object) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(Collection& collection, const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::optional<Fault> FaultFor(const Target& target, bool of_open_watch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Collection& CollectionOf(const std::string& group_and_plural) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Clock& clock_;
  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, Collection> collections_ ABSL_GUARDED_BY(mutex_);  // by "group/plural"
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 100;
  int64_t bookmark_ ABSL_GUARDED_BY(mutex_) = 0;  // counts SendBookmarks
  int64_t uids_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Fault> faults_ ABSL_GUARDED_BY(mutex_);
  std::vector<ApiCall> calls_ ABSL_GUARDED_BY(mutex_);
  int open_watches_ ABSL_GUARDED_BY(mutex_) = 0;
  int crash_after_writes_ ABSL_GUARDED_BY(mutex_) = -1;
  CrashPoint crash_point_ ABSL_GUARDED_BY(mutex_) = CrashPoint::kBefore;
  bool crashed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace trainyard::control
