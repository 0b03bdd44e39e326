// HeldPods: pods that are being deleted and stay until Kueue's finalizer goes.
#pragma once

#include <set>
#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "operator/base/mutex.h"

namespace trainyard::control {

// Thread-safe. Kueue keeps such a pod until another pod of its group replaces it. A replica's pod
// has one name, so the pod must go first. The pods of a job that is gone are here too: nobody else
// would let them go.
class HeldPods {
 public:
  void Note(const std::string& job_key, const std::string& pod_key);
  // The noted pods of the job, which are forgotten.
  std::set<std::string> Take(const std::string& job_key);

 private:
  Mutex mutex_;
  std::unordered_map<std::string, std::set<std::string>> jobs_ ABSL_GUARDED_BY(mutex_);  // by job key
};

}  // namespace trainyard::control
