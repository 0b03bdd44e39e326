// The part of a plan that takes children away: single ones, all pods of a suspended job, and what
// goes when a job has ended. Pure.
#pragma once

#include <string>

#include "operator/plan/actions.h"
#include "operator/plan/situation.h"

namespace trainyard::control {

// A pod that is Terminating is waited for. It is forced, once, where nothing runs on its node any
// more, or where runPolicy.lostNodePolicy says so of nodes that are not Ready: two processes of one
// replica would be worse than waiting.
Plan DeletePod(const Situation& situation, const ReplicaId& id, const Pod& pod);

// The job's Secret or PodGroup; nothing when it is known that the job has none.
Plan DeleteUnwatched(const Situation& situation, ChildKind kind, const std::string& name);

// All pods, and the gang's place in the queue.
Plan StopAll(const Situation& situation);

// Of a job that, by `status`, has ended: by cleanPodPolicy, and the job itself after its time to
// live.
Plan CleanUp(const Situation& situation, const TrainingJobStatus& status);

}  // namespace trainyard::control
