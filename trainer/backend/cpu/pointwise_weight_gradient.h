// The weight gradient of a 1x1 convolution: one product over samples and pixels. The side with
// fewer channels, x or dy, is turned into rows of channels, which become the lanes. The other side
// is read as it lies. Nothing is added across lanes, and no channel count makes pixels fall onto
// the same lines of the nearest cache, as they do for `conv_weight_gradient`.
#pragma once

#include <cstddef>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine {

// Whether it is faster than `conv_weight_gradient` for this shape. A function of shape and samples
// alone, as the two add in different orders.
bool PrefersPointwiseWeightGradient(const ConvShape& shape, int64_t samples);

// Floats of scratch for RunPointwiseWeightGradient on `threads` threads.
size_t PointwiseWeightGradientScratchFloats(const ConvShape& shape, int threads);

// dw [1][1][channels][outputs] and, unless null, db [outputs], overwritten. Panels are
// summed in parts that the shape gives (panel_parts.h), so the bits do not depend on the threads.
void RunPointwiseWeightGradient(const ConvShape& shape, int64_t samples, const float* x, const float* dy, float* dw, float* db,
                                float* scratch, CpuDevice& device);

}  // namespace trainyard::engine
