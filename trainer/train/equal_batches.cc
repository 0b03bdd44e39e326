#include "trainer/train/equal_batches.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::engine {

absl::Status CheckEqualBatches(const Sampler& sampler, int64_t end_step, std::string_view data) {
  constexpr int64_t kUnequal = 2;  // of an epoch's steps at most, the last ones
  const int64_t first = sampler.start_step();
  const int64_t steps = std::min(sampler.StepsPerEpoch(), end_step - first);
  for (int64_t step = std::max<int64_t>(1, steps - kUnequal); step < steps; ++step) {
    const SamplerStep other = sampler.At(first + step);
    const SamplerStep one = sampler.At(first);
    if (other.examples() == one.examples()) continue;
    return absl::InvalidArgumentError(fmt::format(
        "{}: batch {} has {} examples, the first one has {}. Layers with stateful: true carry state from batch to batch, so all "
        "batches must be of one size; choose a batchSize or a range that leaves no rest",
        data, step + 1, other.examples(), one.examples()));
  }
  return absl::OkStatus();
}

}  // namespace trainyard::engine
