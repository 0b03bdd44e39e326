// Where a job's replicas write, below the output folder that they share.
#pragma once

#include <string>

#include "trainer/job/training_config.h"

namespace trainyard::engine {

// checkpoint.dir, else <output>/checkpoints.
std::string CheckpointFolder(const std::string& output, const TrainingConfig& config);
// summary.dir, else <output>/summaries.
std::string SummaryFolder(const std::string& output, const TrainingConfig& config);

}  // namespace trainyard::engine
