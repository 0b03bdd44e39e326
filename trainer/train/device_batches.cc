#include "trainer/train/device_batches.h"

#include <algorithm>

#include "trainer/base/status_macros.h"

namespace trainyard::engine {

int64_t ExamplesOf(BatchesOfStep batches) {
  int64_t examples = 0;
  for (const Batch* const batch : batches) examples += batch->examples;
  return examples;
}

DeviceBatches::DeviceBatches(const Dataset& dataset, std::span<const std::unique_ptr<Device>> devices, const PrefetcherOptions& options,
                             Clock& clock)
    : clock_(clock) {
  for (const std::unique_ptr<Device>& device : devices) {
    inputs_.push_back(std::make_unique<Prefetcher>(dataset, device->sampler, options, clock));
  }
}

absl::StatusOr<BatchesOfStep> DeviceBatches::Next(absl::Duration at_most) {
  batches_.clear();
  const absl::Time deadline = clock_.Now() + at_most;
  for (const std::unique_ptr<Prefetcher>& input : inputs_) {
    TY_ASSIGN_OR_RETURN(const Batch* const batch, input->Next(std::max(absl::ZeroDuration(), deadline - clock_.Now())));
    batches_.push_back(batch);
  }
  return BatchesOfStep(batches_);
}

}  // namespace trainyard::engine
