#include "operator/plan/cleanup_policy.h"

#include <algorithm>

#include "operator/children/job_secrets.h"
#include "operator/plan/replica_state.h"

namespace trainyard::control {
namespace {

// Nothing of the pod runs any more: the kubelet reports its last phase a moment later.
bool HasEnded(const Pod& pod) {
  const auto ended = [](const ContainerStatus& container) { return container.terminated.has_value(); };
  return !pod.IsActive() || (!pod.containers.empty() && std::all_of(pod.containers.begin(), pod.containers.end(), ended));
}

// The kubelet restarts nothing of it.
bool EndedForGood(const TrainingJob& job, const ReplicaId& id, const Pod& pod) {
  if (!pod.IsActive()) return true;
  const ReplicaSpec* replica = job.spec.Find(id.role);
  if (replica == nullptr || !HasEnded(pod)) return false;
  const PodState state = StateOf(pod, replica->restart_policy);
  return state == PodState::kCompleted || state == PodState::kFailed;
}

bool AnyTrains(const TrainingJob& job, const Observed& observed) {
  return std::any_of(observed.pods.begin(), observed.pods.end(), [&](const auto& entry) {
    const auto& [id, pod] = entry;
    const ReplicaSpec* replica = job.spec.Find(id.role);
    if (id.role == Role::kPs || replica == nullptr) return false;
    return pod->IsActive() && !pod->meta.deletion_time && StateOf(*pod, replica->restart_policy) != PodState::kCompleted;
  });
}

}  // namespace

absl::Time PodGoesAt(const TrainingJob& job, const TrainingJobStatus& status, const Observed& observed, const ReplicaId& id,
                     const Pod& pod) {
  const CleanPodPolicy policy = job.spec.run_policy.clean_pod_policy;
  if (policy == CleanPodPolicy::kAll) return absl::InfinitePast();
  if (EndedForGood(job, id, pod)) return absl::InfiniteFuture();
  if (status.phase != JobPhase::kSucceeded) {
    const Condition* failed = status.Find("Failed");
    const bool over = failed != nullptr && (failed->reason == "DeadlineExceeded" || failed->reason == "BackoffLimitExceeded");
    return policy == CleanPodPolicy::kRunning || id.role == Role::kPs || over ? absl::InfinitePast() : absl::InfiniteFuture();
  }
  if (policy == CleanPodPolicy::kNone && id.role != Role::kPs) return absl::InfiniteFuture();
  // Servers of other frameworks do not end by themselves: they only serve replicas that still
  // train.
  if (id.role == Role::kPs && job.spec.framework != Framework::kTrainyard && !AnyTrains(job, observed)) return absl::InfinitePast();
  return status.completion_time ? *status.completion_time + kEndGrace : absl::InfinitePast();
}

bool FailedPodStays(const TrainingJob& job, const ReplicaId& id, const Pod& pod) {
  return job.spec.run_policy.clean_pod_policy != CleanPodPolicy::kAll && EndedForGood(job, id, pod);
}

bool AllGoesAtEnd(const TrainingJob& job) { return job.spec.run_policy.clean_pod_policy == CleanPodPolicy::kAll; }

bool KeysGoAtEnd(const TrainingJob& job) { return NeedsSecret(job) && job.spec.run_policy.clean_pod_policy != CleanPodPolicy::kNone; }

bool PodGroupGoesAtEnd(const TrainingJob& job, const TrainingJobStatus& status, const Observed& observed, absl::Time now) {
  if (job.spec.run_policy.scheduling.gang == Gang::kNone) return false;
  return std::none_of(observed.pods.begin(), observed.pods.end(), [&](const auto& entry) {
    const auto& [id, pod] = entry;
    return !HasEnded(*pod) && !pod->meta.deletion_time && PodGoesAt(job, status, observed, id, *pod) > now;
  });
}

std::optional<absl::Time> DeleteJobAt(const TrainingJob& job, const TrainingJobStatus& status) {
  const std::optional<absl::Duration>& ttl = job.spec.run_policy.ttl_after_finished;
  if (!ttl || !status.completion_time) return std::nullopt;
  return *status.completion_time + *ttl;
}

}  // namespace trainyard::control
