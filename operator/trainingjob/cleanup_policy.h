// What is deleted once a job has ended, and the job itself after its time to live. Pure.
#pragma once

#include <optional>

#include "absl/time/time.h"
#include "operator/api/core.h"
#include "operator/trainingjob/observed.h"

namespace trainyard::control {

// Of a job that, by `status`, has Succeeded or Failed: whether this pod of its is to go.
bool PodGoesAtEnd(const TrainingJob& job, const TrainingJobStatus& status, const ReplicaId& id, const Pod& pod);

// cleanPodPolicy All takes services and ConfigMap as well.
bool AllGoesAtEnd(const TrainingJob& job);

// The ssh keys of an MPI job: they stay with cleanPodPolicy None, for those who look into its pods.
bool KeysGoAtEnd(const TrainingJob& job);

// A gang's PodGroup holds its place in the queue: it goes under every policy, once none of the pods that the policy keeps runs any more.
bool PodGroupGoesAtEnd(const TrainingJob& job, const TrainingJobStatus& status, const Observed& observed);

// When the job itself is to be deleted; nothing without ttlSecondsAfterFinished.
std::optional<absl::Time> DeleteJobAt(const TrainingJob& job, const TrainingJobStatus& status);

}  // namespace trainyard::control
