// The reasons that hold a job up. Pure.
#pragma once

#include "operator/plan/ending_pods.h"
#include "operator/plan/restart_policy.h"
#include "operator/plan/situation.h"

namespace trainyard::control {

// A child's name that is taken, else children that the API server refuses to create, else a pod
// that should be gone, else a pod that cannot start, else a step that does not move.
Stall FindStall(const Situation& situation, const TrainingJobStatus& status, const Restarts& restarts, bool children_missing);

}  // namespace trainyard::control
