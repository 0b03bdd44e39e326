// FirstLook: the pods that an operator which has just started should know of, and does not see. A
// pod that lost its labels while no operator ran is in no cache.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "operator/api/core.h"
#include "operator/api/training_job.h"
#include "operator/base/mutex.h"
#include "operator/children/child_ref.h"

namespace trainyard::control {

// The replicas without a pod in `pods`, of the roles whose last status counted more pods than that.
std::vector<ChildRef> OutOfSight(const TrainingJob& job, const std::vector<std::shared_ptr<const Pod>>& pods);

// Thread-safe. Which jobs this process has looked at, by key.
class FirstLook {
 public:
  bool IsDone(const TrainingJob& job);
  void Done(const TrainingJob& job);
  void Forget(const std::string& job_key);

 private:
  Mutex mutex_;
  std::unordered_set<std::string> done_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trainyard::control
