// What is deleted once a job has ended, and the job itself after its time to live. Pure.
#pragma once

#include <optional>

#include "absl/time/time.h"
#include "operator/api/core.h"
#include "operator/trainingjob/labels.h"

namespace trainyard::control {

// Of a job that has Succeeded or Failed: whether this pod of its is to go.
bool PodGoesAtEnd(const TrainingJob& job, const ReplicaId& id, const Pod& pod);

// cleanPodPolicy All takes services, ConfigMap and secret as well.
bool AllGoesAtEnd(const TrainingJob& job);

// When the job itself is to be deleted; nothing without ttlSecondsAfterFinished.
std::optional<absl::Time> DeleteJobAt(const TrainingJob& job);

}  // namespace trainyard::control
