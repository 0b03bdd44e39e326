// The input gradient of 3x3 or 5x5 windows of stride 1 on panels, by Winograd's F(2x2, 3x3),
// F(4x4, 3x3) or F(2x2, 5x5) transposed: each 2x2 or 4x4 pixels of dy add
// B [(G w G^T) (A dy A^T)] B^T to a tile of dx. The sum over outputs is a product for each element.
// There are as many tiles as the forward convolution has: fewer than tiles of dx where windows need
// no padding.
#pragma once

#include <cstddef>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine {

// How the products of a convolution's input gradient are blocked; weights are packed by `block`.
struct WinogradInputGradientPlan {
  ConvShape shape;
  bool dy_in_pairs, dx_in_pairs;  // of bfloat16
  int block = 1, columns = 1;

  WinogradInputGradientPlan(const ConvShape& shape, bool dy_in_pairs, bool dx_in_pairs, const CpuDevice& device);
};

// Floats of scratch on `threads` threads.
size_t WinogradInputGradientScratchFloats(const WinogradInputGradientPlan& plan, int threads);
// dx of dy, with weights of RunWinogradPack, transposed. Tiles add to dx in float32: where it is
// pairs, a band of rows is rounded once no further tile reaches it. Threads take panels and blocks
// of channels. Each sum has one order, whatever the threads.
void RunWinogradInputGradient(const WinogradInputGradientPlan& plan, const float* dy, const float* weights, float* dx, float* scratch,
                              CpuDevice& device);

}  // namespace trainyard::engine
