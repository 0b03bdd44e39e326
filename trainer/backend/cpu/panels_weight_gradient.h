// The weight gradient of any convolution, directly on panels: kernels/conv_weight_gradient.cc. With
// a pool behind the convolution, what reaches it through the pool is made a band of rows at a time,
// in memory of a thread's own that stays in its second cache.
#pragma once

#include <cstddef>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine {

// Floats of scratch, on any number of threads.
size_t PanelsWeightGradientScratchFloats(const ConvShape& shape, bool bias);
// dw [kernel_h][kernel_w][channels][outputs] and, where it is not null, db [outputs]. Panels are
// summed in a number of parts that the shape gives, from the first to the last. So the bits do not
// depend on the threads, and a thread reads what it may have written: panels of its own.
void RunPanelsWeightGradient(const ConvShape& shape, const float* x, const float* dy, float* dw, float* db, float* scratch,
                             CpuDevice& device);

// The same of a convolution whose outputs a pool of windows that tile the image reads
// (TilesImage). `pool` is as its gradient's, without y. `scratch` depends on the threads, the sums
// do not.
size_t PooledWeightGradientScratchFloats(const ConvShape& shape, const PoolArgs& pool, bool bias, int threads);
void RunPooledWeightGradient(const ConvShape& shape, const float* x, const PoolArgs& pool, float* dw, float* db, float* scratch,
                             CpuDevice& device);

}  // namespace trainyard::engine
