// What is deleted once a job has ended, and the job itself after its time to live. Pure.
#pragma once

#include <optional>

#include "absl/time/time.h"
#include "operator/api/core.h"
#include "operator/trainingjob/labels.h"

namespace trainyard::control {

// Of a job that, by `status`, has Succeeded or Failed: whether this pod of its is to go.
bool PodGoesAtEnd(const TrainingJob& job, const TrainingJobStatus& status, const ReplicaId& id, const Pod& pod);

// cleanPodPolicy All takes services and ConfigMap as well.
bool AllGoesAtEnd(const TrainingJob& job);

// When the job itself is to be deleted; nothing without ttlSecondsAfterFinished.
std::optional<absl::Time> DeleteJobAt(const TrainingJob& job, const TrainingJobStatus& status);

}  // namespace trainyard::control
