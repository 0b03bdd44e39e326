// A convolution that leaves the mean and the variance of what it stores.
#pragma once

#include <cstddef>

#include "trainer/backend/cpu/batch_moments.h"
#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine {

// Sums are made of a few rows of y at a time, which are still in the second cache. The blocks of
// the sums depend on the shape alone.
class ConvMoments {
 public:
  // Sets args.rows_behind. `args` is without a pool and planned, y is what it stores.
  ConvMoments(ConvForwardArgs& args, const ValueSpec& y, CpuDevice& device);

  size_t scratch_bytes() const { return moments_.scratch_bytes(); }
  // RunConvForward of args, and the moments [outputs] of args.y. The scratch is not args.scratch.
  void Run(const ConvForwardArgs& args, void* scratch, float* mean, float* variance) const;

 private:
  CpuDevice* device_;
  BatchMoments moments_;
};

}  // namespace trainyard::engine
