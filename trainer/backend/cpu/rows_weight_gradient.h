// The weight gradient of a convolution with outputs as lanes: a product of x and dy over samples
// and pixels. x is read as it lies. dy is turned into rows of outputs, one row of the image at a
// time. Nothing is added across lanes, so it beats `conv_weight_gradient` wherever outputs fill
// their vectors. Few samples cost little.
#pragma once

#include <cstddef>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine {

// Whether it is faster than `conv_weight_gradient` for this shape. A function of shape and samples
// alone, as the two add in different orders.
bool PrefersRowsWeightGradient(const ConvShape& shape, int64_t samples);

// Floats of scratch for RunRowsWeightGradient on `threads` threads.
size_t RowsWeightGradientScratchFloats(const ConvShape& shape, int threads);

// dw [kernel_h][kernel_w][channels][outputs], overwritten. The sums do not depend on the number of
// threads.
void RunRowsWeightGradient(const ConvShape& shape, int64_t samples, const float* x, const float* dy, float* dw, float* scratch,
                           CpuDevice& device);

}  // namespace trainyard::engine
