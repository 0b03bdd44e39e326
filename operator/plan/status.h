// The parts of status that describe replicas: counts, completed ones, and the conditions and words
// that follow from them. Pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "operator/plan/observed.h"
#include "operator/plan/restart_policy.h"

namespace trainyard::control {

// Replicas that have ended with success, by status (whose pods may be gone) and by their pods.
std::set<ReplicaId> CompletedReplicas(const TrainingJob& job, const Observed& observed);

// desired, active, ready, succeeded, failed, restarts and completed of every role of the spec.
std::map<Role, ReplicaStatus> CountReplicas(const TrainingJob& job, const std::set<ReplicaId>& completed, const Restarts& restarts);

// ps, chief and workers that are neither ready nor completed, in order.
std::vector<ReplicaId> ReplicasNotReady(const TrainingJob& job, const std::set<ReplicaId>& completed, const Restarts& restarts);

}  // namespace trainyard::control
