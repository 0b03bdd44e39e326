// What all workers of a job must have alike.
#pragma once

#include "trainer/base/job_settings.h"
#include "trainer/job/training_config.h"

namespace trainyard::engine {

// All of spec.training that changes the result. Not `data.dir`, which may differ between machines,
// nor what a worker may have of its own, as its threads. A long value is told by its SHA-256.
JobSettings SettingsOf(const TrainingConfig& config);

}  // namespace trainyard::engine
