#include "operator/trainingjob/cleanup_policy.h"

namespace trainyard::control {

bool PodGoesAtEnd(const TrainingJob& job, const TrainingJobStatus& status, const ReplicaId& id, const Pod& pod) {
  const CleanPodPolicy policy = job.spec.run_policy.clean_pod_policy;
  if (policy == CleanPodPolicy::kAll) return true;
  const bool active = pod.phase != PodPhase::kSucceeded && pod.phase != PodPhase::kFailed;
  if (!active) return false;
  if (policy == CleanPodPolicy::kRunning || id.role == Role::kPs) return true;
  const Condition* failed = status.Find("Failed");
  return failed != nullptr && failed->status && (failed->reason == "DeadlineExceeded" || failed->reason == "BackoffLimitExceeded");
}

bool AllGoesAtEnd(const TrainingJob& job) { return job.spec.run_policy.clean_pod_policy == CleanPodPolicy::kAll; }

std::optional<absl::Time> DeleteJobAt(const TrainingJob& job, const TrainingJobStatus& status) {
  const std::optional<absl::Duration>& ttl = job.spec.run_policy.ttl_after_finished;
  if (!ttl || !status.completion_time) return std::nullopt;
  return *status.completion_time + *ttl;
}

}  // namespace trainyard::control
