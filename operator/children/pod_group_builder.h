// The PodGroup of a gang-scheduled job, for Volcano or the coscheduling plugin.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "operator/api/training_job.h"

namespace trainyard::control {

// How many pods the scheduler starts at once: runPolicy.scheduling.minAvailable, else all.
int MinMember(const TrainingJob& job);

// Named like the job; gang must not be None.
nlohmann::json BuildPodGroup(const TrainingJob& job);

}  // namespace trainyard::control
