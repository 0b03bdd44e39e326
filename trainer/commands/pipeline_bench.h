// How fast an input pipeline is when nothing else runs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/base/clock.h"
#include "trainer/data/dataset.h"
#include "trainer/job/training_config.h"

namespace trainyard::engine {

struct PipelineSpeed {
  int64_t batches = 0;
  int64_t examples = 0;
  double seconds = 0;
  int prefetch_depth = 0;                              // at the end
  std::vector<std::pair<std::string, double>> stages;  // seconds, in the order of first use
};

// Takes batches of config.batch_size, as one worker of the job would, for `duration`. Filling
// caches in the first epoch counts too: measure several epochs, or read the stages.
absl::StatusOr<PipelineSpeed> MeasurePipeline(const Dataset& dataset, const TrainingConfig& config, absl::Duration duration, Clock& clock);

// A table for people.
std::string SpeedText(const PipelineSpeed& speed);

}  // namespace trainyard::engine
