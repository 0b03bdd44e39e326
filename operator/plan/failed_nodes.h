// The nodes that failed replicas keep away from (runPolicy.avoidFailedNodes). Pure; its memory is
// status.failedNodes, which is written before the failed pod is deleted.
#pragma once

#include <vector>

#include "operator/plan/actions.h"
#include "operator/plan/restart_policy.h"
#include "operator/plan/situation.h"

namespace trainyard::control {

// Whether a disrupted pod was ended by its node: evicted for want of memory or disk, rejected for
// want of a device, failed on an unhealthy one, shut down, or lost. Preemption, the eviction API
// and a deletion from outside say nothing of the node.
bool EndedByItsNode(const Pod& pod);

// status.failedNodes with the nodes of the failures that count now; the oldest come first. Empty
// unless the job asks for it.
//
// A node that the cluster no longer has is forgotten. So are the oldest, where one replica (or a
// job that restarts together) has over eight, or the job over 64. A replica that needs a pod, and
// keeps away from all usable nodes of the cluster, forgets the oldest of them: it starts again
// there.
std::vector<FailedNode> FailedNodesNow(const Situation& situation, const Restarts& restarts);

// The events of it.
Plan TellOfFailedNodes(const Situation& situation, const std::vector<FailedNode>& now);

}  // namespace trainyard::control
