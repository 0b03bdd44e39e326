// The part of a plan that makes the children those of the spec. Pure.
#pragma once

#include <set>

#include "operator/plan/actions.h"
#include "operator/plan/restart_policy.h"
#include "operator/plan/situation.h"

namespace trainyard::control {

// `completed`: replicas that need no pod any more. `hosts_epoch`: of the host lists as they are to
// be. While the API server is not to be asked again, nothing is created.
Plan PlanChildren(const Situation& situation, const std::set<ReplicaId>& completed, const Restarts& restarts, int64_t hosts_epoch);

}  // namespace trainyard::control
