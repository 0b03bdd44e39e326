// The PodGroup of a gang-scheduled job, for Volcano, the coscheduling plugin or the default
// scheduler.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "operator/api/training_job.h"

namespace trainyard::control {

// How many pods the scheduler starts at once: runPolicy.scheduling.minAvailable, else all.
int MinMember(const TrainingJob& job);

// What `object`, a PodGroup of the job's scheduler, has for minMember; 0 where it has none.
int MinMemberOf(const TrainingJob& job, const nlohmann::json& object);

// The spec of a PodGroup that follows the job's scale. Empty for Native, whose policy is immutable:
// a job that was scaled keeps its first minimum until it is suspended.
nlohmann::json ScaledPodGroupSpec(const TrainingJob& job);

// Named like the job; gang must not be None.
nlohmann::json BuildPodGroup(const TrainingJob& job);

}  // namespace trainyard::control
