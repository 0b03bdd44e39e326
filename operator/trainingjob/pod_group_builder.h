// The PodGroup of a gang-scheduled job, for Volcano or the coscheduling plugin.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "operator/api/training_job.h"

namespace trainyard::control {

// Named like the job; gang must not be None.
nlohmann::json BuildPodGroup(const TrainingJob& job);

}  // namespace trainyard::control
