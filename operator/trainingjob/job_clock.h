// JobClock: the time by which one job's waits are measured, whichever host's clock wrote the times
// that they begin at.
#pragma once

#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "operator/api/training_job.h"
#include "operator/base/clock.h"
#include "operator/base/mutex.h"
#include "operator/plan/observed.h"

namespace trainyard::control {

// The newest time that an operator or the API server wrote: the present is not before it.
absl::Time NewestTime(const TrainingJob& job, const Children& children);

// Thread-safe. A wait of 20 s from a time in the status is over 20 s after this process has seen
// that time. That holds also where the own clock is behind the clock that wrote it. A job's time
// begins at max(own clock, newest time in its objects). It then goes on with the monotonic clock
// until the own clock has caught up.
class JobClock {
 public:
  explicit JobClock(Clock& clock) : clock_(clock) {}

  absl::Time Now(const std::string& key, absl::Time newest);
  void Forget(const std::string& key);

 private:
  struct Ahead {
    absl::Time time;
    absl::Duration at;  // Clock::Monotonic()
  };

  Clock& clock_;
  Mutex mutex_;
  std::unordered_map<std::string, Ahead> ahead_ ABSL_GUARDED_BY(mutex_);  // of the own clock, by job key
};

}  // namespace trainyard::control
