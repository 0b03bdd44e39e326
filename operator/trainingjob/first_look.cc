#include "operator/trainingjob/first_look.h"

#include <algorithm>

#include "operator/children/child_meta.h"

namespace trainyard::control {

std::vector<ChildRef> OutOfSight(const TrainingJob& job, const std::vector<std::shared_ptr<const Pod>>& pods) {
  std::unordered_set<std::string> seen;
  for (const auto& pod : pods) {
    if (pod->meta.controller.uid == job.meta.uid) seen.insert(pod->meta.name);
  }
  std::vector<ChildRef> missing;
  for (const auto& [role, replica] : job.spec.replicas) {
    const auto told = job.status.replica_statuses.find(role);
    if (told == job.status.replica_statuses.end()) continue;
    std::vector<ChildRef> unseen;
    for (int i = 0; i < replica.replicas; ++i) {
      ChildRef pod{ChildKind::kPod, ChildName(job, {role, i}), "", "", ReplicaId{role, i}};
      if (!seen.contains(pod.name)) unseen.push_back(std::move(pod));
    }
    const int in_sight = replica.replicas - static_cast<int>(unseen.size());
    if (told->second.active + told->second.succeeded + told->second.failed > in_sight)
      std::ranges::move(unseen, std::back_inserter(missing));
  }
  return missing;
}

bool FirstLook::IsDone(const TrainingJob& job) {
  MutexLock lock(mutex_);
  return done_.contains(job.meta.Key());
}

void FirstLook::Done(const TrainingJob& job) {
  MutexLock lock(mutex_);
  done_.insert(job.meta.Key());
}

void FirstLook::Forget(const std::string& job_key) {
  MutexLock lock(mutex_);
  done_.erase(job_key);
}

}  // namespace trainyard::control
