// UnwrittenStatuses: remembers since when each job has a status that is not written yet, so that
// small changes are joined into few writes.
#pragma once

#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "operator/base/mutex.h"
#include "operator/plan/plan.h"

namespace trainyard::control {

// Thread-safe. Times are of the monotonic clock. Only jobs with a change that waits take memory.
class UnwrittenStatuses {
 public:
  explicit UnwrittenStatuses(StatusWriteOptions options) : options_(options) {}

  // How long the plan's status is to wait before it is written (StatusDelay); zero: write it now,
  // or there is none.
  absl::Duration Delay(const std::string& key, const Plan& plan, bool others_are_new, absl::Duration now);
  // The status was written, or there is nothing to write.
  void Forget(const std::string& key);

 private:
  struct Waiting {
    TrainingJobStatus status;
    absl::Duration first;
    absl::Duration last;
  };
  const StatusWriteOptions options_;
  Mutex mutex_;
  std::unordered_map<std::string, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trainyard::control
