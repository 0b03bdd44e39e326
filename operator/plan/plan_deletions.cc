#include "operator/plan/plan_deletions.h"

#include <fmt/format.h>

#include "operator/plan/cleanup_policy.h"

namespace trainyard::control {

Plan DeletePod(const Situation& situation, const ReplicaId& id, const Pod& pod) {
  Plan plan;
  Deletion deletion{{ChildKind::kPod, pod.meta.name, pod.meta.uid, pod.meta.resource_version, id}};
  if (pod.meta.deletion_time) {
    const auto node = situation.observed.down_nodes.find(pod.node);
    if (node == situation.observed.down_nodes.end() || pod.meta.ForceDeleted()) return plan;
    const bool may_still_run =
        node->second == NodeDown::kNotReady && situation.job.spec.run_policy.lost_node_policy != LostNodePolicy::kForceDelete;
    if (may_still_run) return plan;
    const absl::Time force_at = *pod.meta.deletion_time + situation.options.force_delete_after;
    if (situation.now < force_at) {
      plan.RequeueAt(force_at);
      return plan;
    }
    deletion.force = true;
    plan.AddEvent(true, "ForceDeleted",
                  fmt::format("pod {} is Terminating on node {}, which is down: it is deleted without waiting", pod.meta.name, pod.node));
  }
  plan.deletions.push_back(std::move(deletion));
  return plan;
}

Plan DeleteUnwatched(const Situation& situation, ChildKind kind, const std::string& name) {
  Plan plan;
  const auto known = situation.observed.unwatched.find(kind);
  if (known != situation.observed.unwatched.end() && known->second.holder != Unwatched::Holder::kJob) return plan;
  plan.deletions.push_back({{kind, name, "", "", std::nullopt}});
  return plan;
}

Plan StopAll(const Situation& situation) {
  const TrainingJob& job = situation.job;
  Plan plan;
  for (const auto& [id, pod] : situation.observed.pods) plan.Add(DeletePod(situation, id, *pod));
  if (job.spec.run_policy.scheduling.gang != Gang::kNone) plan.Add(DeleteUnwatched(situation, ChildKind::kPodGroup, job.meta.name));
  return plan;
}

Plan CleanUp(const Situation& situation, const TrainingJobStatus& status) {
  const TrainingJob& job = situation.job;
  const Observed& observed = situation.observed;
  Plan plan;
  for (const auto& [id, pod] : observed.pods) {
    const bool held = pod->meta.HeldByKueue() && !pod->meta.deletion_time && !pod->IsActive();
    if (held && plan.end_group.empty()) {
      plan.end_group.push_back({ChildKind::kPod, pod->meta.name, pod->meta.uid, pod->meta.resource_version, id});
    }
    const absl::Time at = PodGoesAt(job, status, observed, id, *pod);
    if (at <= situation.now) {
      plan.Add(DeletePod(situation, id, *pod));
    } else if (at != absl::InfiniteFuture() && !pod->meta.deletion_time) {
      plan.RequeueAt(at);
    }
  }
  if (KeysGoAtEnd(job)) plan.Add(DeleteUnwatched(situation, ChildKind::kSecret, SecretName(job)));
  if (PodGroupGoesAtEnd(job, status, observed, situation.now)) plan.Add(DeleteUnwatched(situation, ChildKind::kPodGroup, job.meta.name));
  if (AllGoesAtEnd(job)) {
    for (const auto& [name, service] : observed.services) {
      if (!service.terminating) plan.deletions.push_back({service});
    }
    if (observed.config != nullptr && !observed.config->meta.deletion_time) {
      const ObjectMeta& meta = observed.config->meta;
      plan.deletions.push_back({{ChildKind::kConfigMap, meta.name, meta.uid, meta.resource_version, std::nullopt}});
    }
  }
  const std::optional<absl::Time> end = DeleteJobAt(job, status);
  if (!end) return plan;
  // Not before the end was written.
  plan.delete_job = situation.now >= *end && job.status.Finished();
  if (!plan.delete_job) plan.RequeueAt(*end);
  return plan;
}

}  // namespace trainyard::control
