// The queue of a job whose label of Kueue was edited. Pure.
#pragma once

#include <optional>
#include <string>

#include "operator/api/core.h"
#include "operator/api/training_job.h"

namespace trainyard::control {

// Nothing: the job as it is. Else the job in the queue of `pod`, one of its pods: Kueue ends all
// pods of a group that names two queues. The label counts once all pods are gone.
std::optional<TrainingJob> InQueueOfItsPods(const TrainingJob& job, const Pod* pod);

// "its pods stay in queue research of Kueue …"; empty where the label names their queue.
std::string DescribeKeptQueue(const Scheduling& scheduling);

}  // namespace trainyard::control
