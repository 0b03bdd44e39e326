#include "operator/plan/restart_together.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "operator/api/restart_records.h"

namespace trainyard::control {
namespace {

bool IsTogether(const TrainingJob& job) { return job.spec.run_policy.restart_scope == RestartScope::kJob; }

bool IsMember(const TrainingJob& job, Role role) { return role != Role::kEvaluator || !job.spec.run_policy.scheduling.kueue_queue.empty(); }

// By replica.
using Records = std::map<std::string, RestartRecord>;

// The replica that waits longest, of those whose end has been counted now.
RestartRecord LatestOf(const Restarts& restarts, const Records& records) {
  RestartRecord latest;
  for (const ReplicaId& id : restarts.ended) {
    const RestartRecord& record = records.at(Name(id));
    if (id.role != Role::kEvaluator && record.backoff_step >= latest.backoff_step) latest = record;
  }
  return latest;
}

// Whether the pods of a started job were made for another number of replicas. Its status tells the
// number, once one has been written; before, the host lists tell.
bool HasNewNumber(const Situation& situation) {
  const TrainingJob& job = situation.job;
  const Observed& observed = situation.observed;
  if (job.status.replica_statuses.empty()) return !observed.pods.empty() && observed.config != nullptr && !situation.hosts.AreHeld(1);
  if (!job.status.start_time) return false;
  return std::ranges::any_of(job.spec.replicas, [&](const auto& each) {
    const auto before = job.status.replica_statuses.find(each.first);
    return IsMember(job, each.first) && before != job.status.replica_statuses.end() && before->second.desired != each.second.replicas;
  });
}

}  // namespace

void RestartTogether(const Situation& situation, Restarts& restarts) {
  const TrainingJob& job = situation.job;
  const Observed& observed = situation.observed;
  if (!IsTogether(job) || restarts.job_failure) return;
  const bool one_ended = std::ranges::any_of(restarts.ended, [](const ReplicaId& id) { return id.role != Role::kEvaluator; });
  restarts.new_number = HasNewNumber(situation);
  if (!one_ended && !restarts.new_number) return;
  Records records;
  for (RestartRecord& record : restarts.records) records[record.replica] = std::move(record);
  const RestartRecord now{.last_end = absl::FromUnixMicros(absl::ToUnixMicros(situation.now))};
  const RestartRecord latest = one_ended ? LatestOf(restarts, records) : now;
  for (const auto& [role, replica] : job.spec.replicas) {
    if (!IsMember(job, role)) continue;
    for (int i = 0; i < replica.replicas; ++i) {
      const ReplicaId id{role, i};
      RestartRecord& record = records[Name(id)];
      record.replica = Name(id);
      record.pod_counted = true;
      record.backoff_step = latest.backoff_step;
      record.last_end = latest.last_end;
      restarts.not_before[id] = latest.last_end + RecreationDelay(latest.backoff_step - 1);
      const auto pod = observed.pods.find(id);
      if (pod == observed.pods.end()) continue;
      record.pod_uid = pod->second->meta.uid;
      restarts.counted.insert(id);
    }
  }
  restarts.records.clear();
  for (auto& [name, record] : records) restarts.records.push_back(std::move(record));
  restarts.all_start_again = true;
}

bool OldPodsRemain(const TrainingJob& job, const Observed& observed, const Restarts& restarts) {
  if (!IsTogether(job)) return false;
  return std::ranges::any_of(observed.pods, [&](const auto& each) {
    const ReplicaId& id = each.first;
    return IsMember(job, id.role) && (restarts.counted.contains(id) || id.index >= job.spec.Replicas(id.role));
  });
}

bool StartsWithAll(const TrainingJob& job, const ReplicaId& id) { return IsTogether(job) && IsMember(job, id.role); }

bool EndedWithAll(const TrainingJob& job, const ReplicaId& id, const Pod& pod) {
  if (!StartsWithAll(job, id)) return false;
  const auto record = std::ranges::find(job.status.restart_records, Name(id), &RestartRecord::replica);
  return record != job.status.restart_records.end() && record->pod_counted && NamesPod(*record, pod.meta.uid);
}

}  // namespace trainyard::control
