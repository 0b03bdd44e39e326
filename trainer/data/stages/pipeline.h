// The stages between a data set's files and its batches.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "trainer/data/dataset.h"
#include "trainer/data/pipeline_config.h"

namespace trainyard::engine {

// `source` followed by the map and cache stages of `config`, in their order. Each notes its time in
// Batch::stages, and reading from `source` does too. Augmentation is left out unless `training`. A
// first stage that caches in memory is the reader's part (reads_into_memory()).
absl::StatusOr<std::unique_ptr<Dataset>> WithStages(std::unique_ptr<Dataset> source, const PipelineConfig& config, bool training,
                                                    uint64_t seed);

}  // namespace trainyard::engine
