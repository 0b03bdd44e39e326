// Convolutions of a few samples, for which a panel would be mostly padding. Outputs are the lanes;
// sums are products over rows of pixels or samples. Values keep their layouts, so no other op
// knows.
#pragma once

#include <cstddef>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine {

// Whether the product path is the faster one.
bool IsFewSamples(const ConvShape& shape, int64_t samples);

// Floats of scratch for RunFewSamples on `threads` threads.
size_t FewSamplesScratchFloats(const ConvShape& shape, int64_t samples, int threads);
// y [1][out_h][out_w][outputs][16] as conv_forward, from weights
// [kernel_h][kernel_w][channels][outputs]; bias may be null.
void RunFewSamples(const ConvShape& shape, int64_t samples, const float* x, const float* weights, const float* bias, float* y,
                   float* scratch, CpuDevice& device);

}  // namespace trainyard::engine
