// Whether a job may go on from what stands in its output folder, before anything is started.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "trainer/job/training_config.h"

namespace trainyard::engine {

// FailedPrecondition names both models where the newest checkpoint in the output folder is of
// another model: the job would go on from it.
absl::Status CheckOldCheckpoint(const std::string& output, const TrainingConfig& config);

}  // namespace trainyard::engine
