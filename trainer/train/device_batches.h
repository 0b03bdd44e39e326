// The input of a worker's devices: one batch for each in every step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "trainer/data/prefetcher.h"
#include "trainer/train/device.h"

namespace trainyard::engine {

// By device. Epoch and place in it are the same for all; some may have no examples.
using BatchesOfStep = std::span<const Batch* const>;

// Of all of them.
int64_t ExamplesOf(BatchesOfStep batches);

// Used from the step loop's thread. Each device's batches are read ahead on a thread of its own.
class DeviceBatches {
 public:
  // `dataset` and `clock` must outlive it.
  DeviceBatches(const Dataset& dataset, std::span<const std::unique_ptr<Device>> devices, const PrefetcherOptions& options, Clock& clock);

  // The next step's, which stay valid until the next call. Errors are those of Prefetcher::Next;
  // all devices together are waited for `at_most`.
  absl::StatusOr<BatchesOfStep> Next(absl::Duration at_most);

 private:
  Clock& clock_;
  std::vector<std::unique_ptr<Prefetcher>> inputs_;
  std::vector<const Batch*> batches_;
};

}  // namespace trainyard::engine
