// How threads divide the steps of a recurrent layer. Samples do not depend on each other. So
// threads go through all steps with samples of their own, and meet at the end alone. Few samples
// are divided in each step, where threads meet twice: behind its product and behind its gates.
#pragma once

#include <cstdint>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/rows_product.h"

namespace trainyard::engine {

// Of a thread that goes through all steps with samples of its own: fewer waste a product's blocks.
inline constexpr int64_t kLeastSamples = 8;

// The samples [begin, end) in all steps, and who works on them.
class SampleSteps {
 public:
  const int64_t begin, end;

  // `alone`: this thread. Else all threads of the device, which divide each step.
  SampleSteps(int64_t first, int64_t last, bool alone, const float* packed, float* scratch, CpuDevice& device)
      : begin(first), end(last), alone_(alone), packed_(packed), scratch_(scratch), device_(device) {}

  // a and c of `product` are of sample `begin`.
  void Multiply(RowsProduct product) const {
    product.rows = end - begin;
    (alone_ ? RunPackedProductAlone : RunPackedProduct)(product, packed_, scratch_, device_);
  }
  // Calls work(begin, end) for parts of the samples.
  template <typename Work>
  void Divide(Work&& work) const {
    if (alone_) return work(begin, end);
    device_.pool.Run(end - begin, [&](int64_t first, int64_t last, int) { work(begin + first, begin + last); });
  }

 private:
  const bool alone_;
  const float* const packed_;
  float* const scratch_;
  CpuDevice& device_;
};

// Calls steps(SampleSteps) for all samples. `packed`: the right side of every step's product;
// `scratch`: `floats` of work for each thread's products.
template <typename Steps>
void RunSteps(int64_t samples, const float* packed, float* scratch, int64_t floats, CpuDevice& device, Steps&& steps) {
  if (samples < kLeastSamples * device.pool.threads()) return steps(SampleSteps(0, samples, /*alone=*/false, packed, scratch, device));
  device.pool.Run(samples, [&](int64_t begin, int64_t end, int thread) {
    steps(SampleSteps(begin, end, /*alone=*/true, packed, scratch + thread * floats, device));
  });
}

}  // namespace trainyard::engine
