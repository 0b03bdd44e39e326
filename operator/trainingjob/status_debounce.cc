#include "operator/trainingjob/status_debounce.h"

#include <algorithm>

namespace trainyard::control {

absl::Duration StatusDebounce::Wait(const std::string& key, const TrainingJobStatus& status, absl::Duration now) {
  MutexLock lock(mutex_);
  const auto [it, is_new] = waiting_.try_emplace(key, Waiting{status, now, now});
  Waiting& waiting = it->second;
  if (!is_new && waiting.status != status) {
    waiting.status = status;
    waiting.last = now;
  }
  const absl::Duration due = std::min(waiting.last + options_.settle, waiting.first + options_.at_most);
  return std::max(due - now, absl::ZeroDuration());
}

absl::Duration StatusDebounce::Patience(const std::string& key, absl::Duration now) {
  MutexLock lock(mutex_);
  const absl::Duration first = waiting_.try_emplace(key, Waiting{{}, now, now}).first->second.first;
  return std::max(first + options_.at_most - now, absl::ZeroDuration());
}

void StatusDebounce::Forget(const std::string& key) {
  MutexLock lock(mutex_);
  waiting_.erase(key);
}

}  // namespace trainyard::control
