#include "operator/trainingjob/job_clock.h"

#include <algorithm>

#include "operator/plan/conditions.h"

namespace trainyard::control {

absl::Time NewestTime(const TrainingJob& job, const Children& children) {
  const TrainingJobStatus& status = job.status;
  absl::Time newest = std::max(
      {job.meta.creation_time, status.start_time.value_or(absl::InfinitePast()), status.completion_time.value_or(absl::InfinitePast())});
  if (status.progress) newest = std::max(newest, status.progress->updated_time);
  if (const Condition* const running = status.Find(kRunning); running != nullptr) newest = std::max(newest, running->last_transition);
  for (const RestartRecord& record : status.restart_records) newest = std::max(newest, record.last_end);
  for (const auto& pod : children.pods) {
    newest = std::max(newest, pod->meta.creation_time);
    if (pod->meta.deletion_time)
      newest = std::max(newest, *pod->meta.deletion_time - pod->meta.deletion_grace.value_or(absl::ZeroDuration()));
  }
  return newest;
}

absl::Time JobClock::Now(const std::string& key, absl::Time newest) {
  const absl::Time now = clock_.Now();
  const absl::Duration monotonic = clock_.Monotonic();
  MutexLock lock(mutex_);
  const auto it = ahead_.find(key);
  const absl::Time known = it == ahead_.end() ? absl::InfinitePast() : it->second.time + (monotonic - it->second.at);
  if (now >= std::max(known, newest)) {
    if (it != ahead_.end()) ahead_.erase(it);
    return now;
  }
  if (newest > known) {
    ahead_[key] = {newest, monotonic};
    return newest;
  }
  return known;
}

void JobClock::Forget(const std::string& key) {
  MutexLock lock(mutex_);
  ahead_.erase(key);
}

}  // namespace trainyard::control
