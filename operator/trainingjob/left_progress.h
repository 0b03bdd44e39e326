// LeftProgress: how far the chiefs came that have ended, by their termination messages
// (docs/contract.md).
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "operator/api/core.h"
#include "operator/api/training_job.h"
#include "operator/base/mutex.h"

namespace trainyard::control {

// Thread-safe. A pod that is being deleted is gone milliseconds after its message, so the message
// is kept when it is seen, until the job's next chief runs.
class LeftProgress {
 public:
  // Of each state of a pod, in their order: keeps what its main container has left, if that is a
  // progress, and forgets it when the container runs again. `job_key`: of the job that the pod's
  // labels name.
  void Note(const std::string& job_key, const Pod& pod);
  // What the job's own reporter has left, the newest.
  std::optional<Progress> Of(const TrainingJob& job) const;
  void Forget(const std::string& job_key);

 private:
  struct Left {
    std::string job_uid;
    std::string pod;
    Progress progress;
  };
  mutable Mutex mutex_;
  std::unordered_map<std::string, Left> jobs_ ABSL_GUARDED_BY(mutex_);  // by job key
};

}  // namespace trainyard::control
