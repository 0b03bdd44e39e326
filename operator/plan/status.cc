#include "operator/plan/status.h"

#include <algorithm>

#include "operator/api/index_set.h"
#include "operator/plan/restart_together.h"
#include "operator/plan/scale_down.h"

namespace trainyard::control {
std::set<ReplicaId> CompletedReplicas(const TrainingJob& job, const Observed& observed) {
  std::set<ReplicaId> completed;
  for (const auto& [role, replica] : job.spec.replicas) {
    const auto counts = job.status.replica_statuses.find(role);
    if (counts == job.status.replica_statuses.end()) continue;
    for (const int index : ParseIndexes(counts->second.completed, replica.replicas)) completed.insert({role, index});
  }
  for (const auto& [id, pod] : observed.pods) {
    const ReplicaSpec* replica = job.spec.Find(id.role);
    if (replica == nullptr || id.index >= replica->replicas) continue;
    if (EndedWithAll(job, id, *pod) || EndsByScaleDown(job, id, *pod)) continue;
    if (StateOf(*pod, replica->restart_policy) == PodState::kCompleted) completed.insert(id);
  }
  return completed;
}

std::map<Role, ReplicaStatus> CountReplicas(const TrainingJob& job, const std::set<ReplicaId>& completed, const Restarts& restarts) {
  std::map<Role, ReplicaStatus> counts;
  std::map<Role, std::set<int>> indexes;
  for (const auto& [role, replica] : job.spec.replicas) counts[role].desired = replica.replicas;
  for (const ReplicaId& id : completed) indexes[id.role].insert(id.index);
  for (const auto& [role, set] : indexes) {
    counts[role].succeeded = static_cast<int>(set.size());
    counts[role].completed = FormatIndexes(set);
  }
  for (const auto& [id, state] : restarts.states) {
    if (restarts.counted.contains(id)) continue;
    ReplicaStatus& role = counts[id.role];
    if (state == PodState::kWaiting || state == PodState::kReady) ++role.active;
    if (state == PodState::kReady) ++role.ready;
    if (state == PodState::kFailed) ++role.failed;
  }
  for (const RestartRecord& record : restarts.records) {
    const std::optional<ReplicaId> id = ReplicaNamed(record.replica);
    if (id && counts.contains(id->role)) counts[id->role].restarts += record.Spent();
  }
  return counts;
}

std::vector<ReplicaId> ReplicasNotReady(const TrainingJob& job, const std::set<ReplicaId>& completed, const Restarts& restarts) {
  std::vector<ReplicaId> missing;
  for (const Role role : {Role::kPs, Role::kChief, Role::kWorker}) {
    for (int i = 0; i < job.spec.Replicas(role); ++i) {
      const ReplicaId id{role, i};
      const auto state = restarts.states.find(id);
      const bool ready = state != restarts.states.end() && state->second == PodState::kReady && !restarts.counted.contains(id);
      if (!ready && !completed.contains(id)) missing.push_back(id);
    }
  }
  return missing;
}

}  // namespace trainyard::control
