#include "operator/plan/success_policy.h"

namespace trainyard::control {

bool HasSucceeded(const TrainingJob& job, const std::set<ReplicaId>& completed) {
  if (!completed.contains(ChiefOf(job))) return false;
  if (job.spec.run_policy.success_policy == SuccessPolicy::kChief) return true;
  for (int i = 0; i < job.spec.Replicas(Role::kWorker); ++i) {
    if (!completed.contains({Role::kWorker, i})) return false;
  }
  return true;
}

}  // namespace trainyard::control
