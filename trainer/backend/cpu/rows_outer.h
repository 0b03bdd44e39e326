// The weight gradient of a convolution with outputs as lanes: a product over samples and pixels of x, as it lies, and dy, turned row by row
// of the image into rows of outputs. Nothing is added across lanes, so it beats `outer` wherever outputs fill their vectors, and few
// samples cost no more than they are.
#pragma once

#include <cstddef>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine {

// Whether it is faster than `outer` for this shape. A function of shape and samples alone, as the two add in different orders.
bool PrefersRowsOuter(const ConvShape& shape, int64_t samples);

// Floats of scratch for RunRowsOuter on `threads` threads.
size_t RowsOuterScratchFloats(const ConvShape& shape, int threads);

// dw [kernel_h][kernel_w][channels][outputs], overwritten. The sums do not depend on the number of threads.
void RunRowsOuter(const ConvShape& shape, int64_t samples, const float* x, const float* dy, float* dw, float* scratch, CpuDevice& device);

}  // namespace trainyard::engine
