#include "operator/trainingjob/taken_names.h"

namespace trainyard::control {

void TakenNames::Note(const std::string& job_key, const ChildRef& child, std::string holder) {
  MutexLock lock(mutex_);
  jobs_[job_key][{child.kind, child.name}] = {std::move(holder), clock_.Monotonic() + retry_after_};
}

std::map<std::pair<ChildKind, std::string>, std::string> TakenNames::Known(const std::string& job_key) {
  std::map<std::pair<ChildKind, std::string>, std::string> known;
  MutexLock lock(mutex_);
  const auto it = jobs_.find(job_key);
  if (it == jobs_.end()) return known;
  std::erase_if(it->second, [now = clock_.Monotonic()](const auto& entry) { return entry.second.until <= now; });
  for (const auto& [child, taken] : it->second) known[child] = taken.holder;
  if (it->second.empty()) jobs_.erase(it);
  return known;
}

void TakenNames::Forget(const std::string& job_key) {
  MutexLock lock(mutex_);
  jobs_.erase(job_key);
}

}  // namespace trainyard::control
