#include "operator/trainingjob/held_pods.h"

namespace trainyard::control {

void HeldPods::Note(const std::string& job_key, const std::string& pod_key) {
  MutexLock lock(mutex_);
  jobs_[job_key].insert(pod_key);
}

std::set<std::string> HeldPods::Take(const std::string& job_key) {
  MutexLock lock(mutex_);
  auto taken = jobs_.extract(job_key);
  return taken ? std::move(taken.mapped()) : std::set<std::string>{};
}

}  // namespace trainyard::control
