#include "operator/trainingjob/unwritten_statuses.h"

namespace trainyard::control {
namespace {

// Progress that is not written yet has the time of each look.
bool SaysTheSame(TrainingJobStatus before, const TrainingJobStatus& after) {
  if (before.progress && after.progress) before.progress->updated_time = after.progress->updated_time;
  return before == after;
}

}  // namespace

absl::Duration UnwrittenStatuses::Delay(const std::string& key, const Plan& plan, bool others_are_new, absl::Duration now) {
  if (!plan.status) return absl::ZeroDuration();
  MutexLock lock(mutex_);
  const auto it = waiting_.try_emplace(key, Waiting{*plan.status, now, now}).first;
  Waiting& waiting = it->second;
  if (!SaysTheSame(waiting.status, *plan.status)) {
    waiting.status = *plan.status;
    waiting.last = now;
  }
  const absl::Duration delay = StatusDelay(
      {.timing = plan.status_timing, .age = now - waiting.first, .unchanged = now - waiting.last, .others_are_new = others_are_new},
      options_);
  return delay;
}

void UnwrittenStatuses::Forget(const std::string& key) {
  MutexLock lock(mutex_);
  waiting_.erase(key);
}

}  // namespace trainyard::control
