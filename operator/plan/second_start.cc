#include "operator/plan/second_start.h"

#include <algorithm>

#include "operator/plan/replica_state.h"

namespace trainyard::control {
namespace {

// When the replica, which has completed, ended. Infinite past: its pod is gone. Infinite future:
// the pod does not tell.
absl::Time EndOf(const Observed& observed, const ReplicaId& id) {
  const auto pod = observed.pods.find(id);
  if (pod == observed.pods.end()) return absl::InfinitePast();
  const ContainerStatus* const main = pod->second->Main();
  const bool tells = main != nullptr && main->terminated && main->terminated->finished_at != absl::InfinitePast();
  return tells ? main->terminated->finished_at : absl::InfiniteFuture();
}

}  // namespace

SecondStart FindSecondStart(const Situation& situation, const std::set<ReplicaId>& completed) {
  const TrainingJobSpec& spec = situation.job.spec;
  SecondStart again;
  // Other programs end as they like.
  if (spec.framework != Framework::kTrainyard || spec.training.empty()) return again;
  const bool has_servers = spec.Replicas(Role::kPs) > 0;
  absl::Time due = absl::InfiniteFuture();
  for (const ReplicaId& id : completed) {
    if (id.role == Role::kEvaluator) continue;
    again.replicas.insert(id);
    if ((id.role == Role::kPs) == has_servers) due = std::min(due, EndOf(situation.observed, id) + kEnding);
  }
  for (const Role role : {Role::kChief, Role::kWorker}) {
    for (int i = 0; i < spec.Replicas(role); ++i) {
      if (!completed.contains({role, i})) again.needed_by.insert({role, i});
    }
  }
  if (due == absl::InfiniteFuture() || again.needed_by.empty()) return {};
  if (situation.now < due) return {.replicas = {}, .needed_by = {}, .look_at = due};
  return again;
}

}  // namespace trainyard::control
