// The children that are deleted once a job has ended, and the job itself after its time to live.
// Pure.
#pragma once

#include <optional>

#include "absl/time/time.h"
#include "operator/api/core.h"
#include "operator/plan/observed.h"

namespace trainyard::control {

// How long the replicas of a job that has succeeded may take to end by themselves. Their logs stay
// when they do.
inline constexpr absl::Duration kEndGrace = absl::Seconds(30);

// Of a job that, by `status`, has Succeeded or Failed: when this pod of its is to go; InfinitePast:
// at once, InfiniteFuture: it stays. A pod whose main container has ended with 0 has completed, and
// one that has failed for good has failed, whatever its phase says.
absl::Time PodGoesAt(const TrainingJob& job, const TrainingJobStatus& status, const Observed& observed, const ReplicaId& id,
                     const Pod& pod);

// Of a pod that fails its job: it stays for its log.
bool FailedPodStays(const TrainingJob& job, const ReplicaId& id, const Pod& pod);

// cleanPodPolicy All takes services and ConfigMap as well.
bool AllGoesAtEnd(const TrainingJob& job);

// The ssh keys of an MPI job: they stay with cleanPodPolicy None, for people who look into its
// pods.
bool KeysGoAtEnd(const TrainingJob& job);

// A gang's PodGroup holds its place in the queue: it goes under every policy, once every pod that
// still runs is to go at once.
bool PodGroupGoesAtEnd(const TrainingJob& job, const TrainingJobStatus& status, const Observed& observed, absl::Time now);

// When the job itself is to be deleted; nothing without ttlSecondsAfterFinished.
std::optional<absl::Time> DeleteJobAt(const TrainingJob& job, const TrainingJobStatus& status);

}  // namespace trainyard::control
