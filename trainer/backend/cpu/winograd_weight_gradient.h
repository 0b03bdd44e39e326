// The weight gradient of 3x3 or 5x5 windows of stride 1 on panels, by Winograd's F(2x2, 3x3),
// F(4x4, 3x3) or F(2x2, 5x5) transposed: dw = G^T [sum over tiles and samples of (B^T x B)
// (A dy A^T)] G, with 4/9, 1/4 or 9/25 of the multiplications. The sum of each of the 16 or 36
// elements is a product of transformed channels and of transformed outputs, turned so that outputs
// are lanes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine {

// Whether it is the fastest path in float32.
bool PrefersWinogradWeightGradient(const ConvShape& shape, int64_t samples);

struct WinogradOperands {
  const float* x;
  const float* dy;
  bool in_pairs;  // both are pairs of bfloat16
};

// Floats of scratch on `threads` threads.
size_t WinogradWeightGradientScratchFloats(const ConvShape& shape, int threads);
// dw [taps][taps][channels][outputs]; db [outputs], may be null. Panels are summed in a number of
// parts that the shape gives. So the bits do not depend on the threads.
void RunWinogradWeightGradient(const ConvShape& shape, int64_t samples, const WinogradOperands& operands, float* dw, float* db,
                               float* scratch, CpuDevice& device);

}  // namespace trainyard::engine
