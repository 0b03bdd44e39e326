// What a job that starts whole or not at all waits for. Pure.
#pragma once

#include <string>

#include "operator/plan/restart_policy.h"
#include "operator/plan/situation.h"

namespace trainyard::control {

// "waits for 4 CPU in queue research: …" of a job of a gang or a queue while none of its pods has a
// node; else empty. It waits for its turn, which is no fault. The words are those of the scheduler,
// where it has spoken; Kueue's are in its Workload, which the message names.
std::string DescribeQueueWait(const Situation& situation, const Restarts& restarts);

// Whether the first pods of a job of gang Native are to be made only after its PodGroup. Kubernetes
// keeps a PodGroup that is being deleted as long as pods name it, also pods that were made since.
// With another minimum than the job's its pods might then wait for ever.
bool WaitsForPodGroup(const Situation& situation);

// It waits for one that is being deleted and has another minimum.
bool PodGroupLeaves(const Situation& situation);

// Why pods of a job with a queue of Kueue run although Kueue holds no room for them; empty where it
// does, and of any other job.
std::string DescribeUnqueued(const Situation& situation);

}  // namespace trainyard::control
