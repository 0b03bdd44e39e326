// Whether there is room for what a job writes, before anything is started.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/job/training_config.h"

namespace trainyard::engine {

// Bytes of one checkpoint: parameters and the optimizer's slots, 4 bytes each. An invalid model is
// an error.
absl::StatusOr<int64_t> CheckpointBytes(const TrainingConfig& config);

// InvalidArgument where a file stands in the place of a folder.
// ResourceExhausted, with what is free and what is needed, where the disk of the checkpoints'
// folder holds not one of them. A folder that is not there yet is taken to be on its parent's disk.
// A disk that does not say what is free has room.
absl::Status CheckOutput(const std::string& output, const TrainingConfig& config);

}  // namespace trainyard::engine
