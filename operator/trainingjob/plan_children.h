// The part of a plan that makes the children those of the spec. Pure.
#pragma once

#include <set>

#include "operator/trainingjob/restart_policy.h"
#include "operator/trainingjob/situation.h"

namespace trainyard::control {

struct ChildrenPlan {
  Plan plan;
  bool pods_missing = false;  // and due: the job starts, or goes on
};

// `completed`: replicas that need no pod any more. `hosts_epoch`: of the host lists as they are to be.
ChildrenPlan PlanChildren(const Situation& situation, const std::set<ReplicaId>& completed, const Restarts& restarts, int64_t hosts_epoch);

}  // namespace trainyard::control
