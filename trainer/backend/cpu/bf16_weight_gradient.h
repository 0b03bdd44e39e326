// Weight gradients with operands of bfloat16: products whose sums run over 32 samples, two panels,
// at a time. x becomes rows of samples. dy becomes pairs of samples of 16 outputs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine {

// Panels of f32, or of pairs of bf16.
struct Bf16Operands {
  const void* x;
  const void* dy;
  bool x_in_pairs, dy_in_pairs;
  // Not null: dy is what the gradient of this pool, whose windows tile the image, makes in pairs of
  // the pairs pool->x. It is made a row of windows at a time, in memory that stays in a near cache.
  const PoolArgs* pool = nullptr;
};

// Of a convolution: dw [kernel_h][kernel_w][channels][outputs] and, unless null, db [outputs], the
// sums of dy as it is; overwritten.
size_t Bf16WeightGradientScratchFloats(const ConvShape& shape, const PoolArgs* pool, int threads);
void RunBf16WeightGradient(const ConvShape& shape, const Bf16Operands& operands, float* dw, float* db, float* scratch, CpuDevice& device);

// Of a dense layer: dw [in][out], from x [pixels][in][16] and dy [pixels][out][16], which is f32.
struct Bf16DenseShape {
  int64_t pixels;
  int in, out;
};
size_t Bf16DenseWeightGradientScratchFloats(const Bf16DenseShape& shape);
void RunBf16DenseWeightGradient(const Bf16DenseShape& shape, const Bf16Operands& operands, float* dw, float* scratch, CpuDevice& device);

}  // namespace trainyard::engine
