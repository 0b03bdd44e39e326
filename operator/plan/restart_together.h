// Jobs whose replicas start again together, when one of them has ended (runPolicy.restartScope:
// Job). Pure.
//
// Programs that add gradients over a fixed group cannot take one member back: torch.distributed,
// MPI. So the end of one replica ends all, and none is recreated before the pods of all are gone.
// A new number of replicas ends all too, because each keeps the number. The evaluator is no member
// and stays, except where Kueue admits the pods: there it is of their group, which is made anew.
// The end of the evaluator ends no other replica.
#pragma once

#include "operator/plan/observed.h"
#include "operator/plan/restart_policy.h"
#include "operator/plan/situation.h"

namespace trainyard::control {

// When a replica's end has been counted now, or the number of replicas has changed: counts the end
// of every other one too, completed ones included, and sets `all_start_again`. That spends nothing
// more. All wait as long as the replica that waits longest. For a new number alone none waits.
void RestartTogether(const Situation& situation, Restarts& restarts);

// Pods from before are still there, also those that a smaller number no longer wants: none is to be
// recreated yet.
bool OldPodsRemain(const TrainingJob& job, const Observed& observed, const Restarts& restarts);

// Whether this replica starts again with the others.
bool StartsWithAll(const TrainingJob& job, const ReplicaId& id);

// Whether this pod's end was counted when all replicas started again: it completes nothing, however
// it ends.
bool EndedWithAll(const TrainingJob& job, const ReplicaId& id, const Pod& pod);

}  // namespace trainyard::control
