#include "operator/trainingjob/cleanup_policy.h"

#include <algorithm>

#include "operator/trainingjob/pod_builder.h"

namespace trainyard::control {

bool PodGoesAtEnd(const TrainingJob& job, const TrainingJobStatus& status, const ReplicaId& id, const Pod& pod) {
  const CleanPodPolicy policy = job.spec.run_policy.clean_pod_policy;
  if (policy == CleanPodPolicy::kAll) return true;
  if (!pod.IsActive()) return false;
  if (policy == CleanPodPolicy::kRunning || id.role == Role::kPs) return true;
  const Condition* failed = status.Find("Failed");
  return failed != nullptr && failed->status && (failed->reason == "DeadlineExceeded" || failed->reason == "BackoffLimitExceeded");
}

bool AllGoesAtEnd(const TrainingJob& job) { return job.spec.run_policy.clean_pod_policy == CleanPodPolicy::kAll; }

bool KeysGoAtEnd(const TrainingJob& job) { return NeedsSshKeys(job) && job.spec.run_policy.clean_pod_policy != CleanPodPolicy::kNone; }

bool PodGroupGoesAtEnd(const TrainingJob& job, const TrainingJobStatus& status, const Observed& observed) {
  if (job.spec.run_policy.scheduling.gang == Gang::kNone) return false;
  return std::none_of(observed.pods.begin(), observed.pods.end(), [&](const auto& entry) {
    const auto& [id, pod] = entry;
    return pod->IsActive() && !pod->meta.deletion_time && !PodGoesAtEnd(job, status, id, *pod);
  });
}

std::optional<absl::Time> DeleteJobAt(const TrainingJob& job, const TrainingJobStatus& status) {
  const std::optional<absl::Duration>& ttl = job.spec.run_policy.ttl_after_finished;
  if (!ttl || !status.completion_time) return std::nullopt;
  return *status.completion_time + *ttl;
}

}  // namespace trainyard::control
