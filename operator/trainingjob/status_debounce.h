// Joins small changes of status into few writes: what is not urgent is written once it has settled, or when it has waited long enough.
#pragma once

#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "operator/api/training_job.h"
#include "operator/base/mutex.h"

namespace trainyard::control {

struct DebounceOptions {
  absl::Duration settle = absl::Milliseconds(1500);  // without a further change
  absl::Duration at_most = absl::Seconds(10);
};

// Thread-safe. Times are of the monotonic clock. Only jobs with a change that waits take memory.
class StatusDebounce {
 public:
  explicit StatusDebounce(DebounceOptions options) : options_(options) {}

  // How long `status` is to wait before it is written; zero: write it now.
  absl::Duration Wait(const std::string& key, const TrainingJobStatus& status, absl::Duration now);
  // How long a status that may wait for others still may; zero: write it now.
  absl::Duration Patience(const std::string& key, absl::Duration now);
  // The status was written, or there is nothing to write.
  void Forget(const std::string& key);

 private:
  struct Waiting {
    TrainingJobStatus status;
    absl::Duration first;
    absl::Duration last;
  };
  const DebounceOptions options_;
  Mutex mutex_;
  std::unordered_map<std::string, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trainyard::control
