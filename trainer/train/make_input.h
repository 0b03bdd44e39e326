// The input of a worker as its job says it.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "trainer/data/prefetcher.h"
#include "trainer/data/sampler.h"
#include "trainer/job/training_config.h"

namespace trainyard::engine {

absl::StatusOr<Sampler> MakeSampler(const DatasetInfo& data, const TrainingConfig& config, int workers, int worker);
// For the steps [first_step, end_step).
PrefetcherOptions PrefetchOptions(const TrainingConfig& config, int64_t first_step, int64_t end_step);

}  // namespace trainyard::engine
