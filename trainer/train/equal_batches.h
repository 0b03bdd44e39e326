// Layers with stateful: true carry state from batch to batch, so all batches must be of one size.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "trainer/data/sampler.h"

namespace trainyard::engine {

// InvalidArgument names `data` ("spec.training.data.train") where the steps of its first epoch, as
// far as `end_step`, read unequal batches. Else the job would fail at the end of that epoch.
absl::Status CheckEqualBatches(const Sampler& sampler, int64_t end_step, std::string_view data);

}  // namespace trainyard::engine
