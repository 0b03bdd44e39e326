// Pods that are to go and stay. Pure.
#pragma once

#include "operator/plan/situation.h"
#include "operator/plan/stall.h"

namespace trainyard::control {

// A Terminating pod that is overdue: because its node is not Ready (NodeNotReady), or because
// finalizers or its node keep it (Terminating).
Stall FindPodThatStays(const Situation& situation);

}  // namespace trainyard::control
