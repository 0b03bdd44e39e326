// What schedulers and queues read of a pod (docs/queues.md). Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "operator/children/labels.h"

namespace trainyard::control {

// Adds priority, gang, queue and placement of runPolicy.scheduling and of the job's Kueue labels.
// The template's scheduler and priority win.
void MarkForScheduler(const TrainingJob& job, const ReplicaId& id, nlohmann::json& meta, nlohmann::json& spec);

// The name of the job's pod group, and so of its Workload, in Kueue. A new job of the same name has
// another one, and so has each group of the job itself (status.groupEpoch): the old Workload may
// still be there, with another number of pods.
std::string KueueGroupName(const TrainingJob& job);

}  // namespace trainyard::control
