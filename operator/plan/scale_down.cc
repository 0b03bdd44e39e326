#include "operator/plan/scale_down.h"

#include <algorithm>

#include "operator/api/restart_records.h"

namespace trainyard::control {

bool EndsByScaleDown(const TrainingJob& job, const ReplicaId& id, const Pod& pod) {
  if (!pod.meta.deletion_time) return false;
  const auto before = job.status.replica_statuses.find(id.role);
  if (before != job.status.replica_statuses.end() && id.index >= before->second.desired) return true;
  const auto record = std::ranges::find(job.status.restart_records, Name(id), &RestartRecord::replica);
  return record != job.status.restart_records.end() && record->pod_counted && record->backoff_step == 0 && NamesPod(*record, pod.meta.uid);
}

}  // namespace trainyard::control
