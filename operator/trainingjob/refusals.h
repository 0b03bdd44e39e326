// Refusals: the creations that the API server refused, by job, and the time of the next attempt.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "operator/base/clock.h"
#include "operator/base/mutex.h"
#include "operator/plan/refusal.h"

namespace trainyard::control {

// Thread-safe. No event tells when a quota has room again. So each refusal in a row doubles the
// wait: 1, 2, 4 … s, at most a minute. An edit of the job's spec ends the wait. Remembered while
// the process lives: a restarted operator asks once.
class Refusals {
 public:
  explicit Refusals(Clock& clock) : clock_(clock) {}

  // Whether it says something else than the job's last one: then it is worth a line of the log.
  bool Note(const TrainingJob& job, Refusal refusal);
  std::optional<Refusal> Known(const TrainingJob& job);
  // All was created, or the job is gone.
  void Forget(const std::string& job_key);

 private:
  struct OfJob {
    std::string uid;
    int64_t generation = 0;
    Refusal refusal;
    absl::Duration wait;
    absl::Duration retry_at;  // on the monotonic clock
  };

  Clock& clock_;
  Mutex mutex_;
  std::unordered_map<std::string, OfJob> jobs_ ABSL_GUARDED_BY(mutex_);  // by job key
};

}  // namespace trainyard::control
