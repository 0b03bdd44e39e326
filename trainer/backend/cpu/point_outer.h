// The weight gradient of a 1x1 convolution: one product over samples and pixels. The side with fewer channels, x or dy, is turned into rows
// of channels, which become the lanes. The other side is read as it lies. Nothing is added across lanes, and no channel count makes pixels
// fall onto the same lines of the nearest cache, as they do for `outer`.
#pragma once

#include <cstddef>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine {

// Whether it is faster than `outer` for this shape. A function of shape and samples alone, as the two add in different orders.
bool PrefersPointOuter(const ConvShape& shape, int64_t samples);

// Floats of scratch for RunPointOuter on `threads` threads.
size_t PointOuterScratchFloats(const ConvShape& shape, int threads);

// dw [1][1][channels][outputs] and, unless null, db [outputs], overwritten. The sums do not depend on the number of threads.
void RunPointOuter(const ConvShape& shape, int64_t samples, const float* x, const float* dy, float* dw, float* db, float* scratch,
                   CpuDevice& device);

}  // namespace trainyard::engine
