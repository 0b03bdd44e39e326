// UnwatchedChildren: gets, patches and deletes the children that no cache holds: a job's Secret and
// PodGroup.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "operator/base/mutex.h"
#include "operator/controller/event_recorder.h"
#include "operator/kube/client.h"
#include "operator/plan/observed.h"

namespace trainyard::control {

// Thread-safe. The answers are remembered while the process lives, by job. A restarted operator
// knows nothing and gets each child once, so that the writes of the operator before it do not
// matter. Only a job's own object (by its owner's uid) is ever changed or deleted. An object of
// another owner, or an object that the operator may not touch, is left as it is, and an event names
// it.
class UnwatchedChildren {
 public:
  UnwatchedChildren(Client& client, EventRecorder& events) : client_(client), events_(events) {}

  std::map<ChildKind, Unwatched> Known(const TrainingJob& job);
  void Forget(const std::string& job_key);

  // The object was just made for the job.
  void Made(const TrainingJob& job, ChildKind kind, const nlohmann::json& object);
  // Looks the child up; the job's own gets the labels and the scale that it should have.
  // NotFound where there is none. One that is about to go, as an earlier job's is, is to be asked
  // for again.
  absl::Status PutRight(const TrainingJob& job, const ChildRef& child);
  // OK too where there is none, or another's.
  absl::Status Delete(const TrainingJob& job, const ChildRef& child);

 private:
  struct OfJob {
    std::string uid;
    std::map<ChildKind, Unwatched> children;
  };

  void Remember(const TrainingJob& job, ChildKind kind, Unwatched known);
  void LeaveAlone(const TrainingJob& job, ChildKind kind, std::string reason, std::string note);

  Client& client_;
  EventRecorder& events_;
  Mutex mutex_;
  std::unordered_map<std::string, OfJob> jobs_ ABSL_GUARDED_BY(mutex_);  // by job key
};

}  // namespace trainyard::control
