// What the kernels of batch normalisation take, those of f32 and those of bfloat16.
#pragma once

#include <stdint.h>

#include "trainer/backend/cpu/lanes.h"

namespace trainyard::engine {

// Batch normalisation of `pixels` pixels in a row that belong to one panel. Lanes from `lanes` on
// belong to no sample: they do not count, and gradients there are zero. All vectors of channels are
// [channels].
struct BatchNormArgs {
  int64_t pixels = 0;
  int channels = 0, lanes = kLanes;
  bool relu = false;
  const void* x = nullptr;       // f32, or pairs of bf16, as dy and y are
  const void* dy = nullptr;      // gradients
  void* y = nullptr;             // y or dx
  const float* scale = nullptr;  // z = scale * x + shift
  const float* shift = nullptr;
  const float* pivot = nullptr;      // of sums: subtracted from x, near its mean
  double* sums = nullptr;            // moments: of x - pivot, then of its square; gradients: of dz, then of dz * (x - pivot); 2 * channels
  float* scratch = nullptr;          // sums: 2 * channels vectors, a thread's own
  const float* dz_factor = nullptr;  // dx = dz_factor * dz + x_factor * x + constant + add
  const float* x_factor = nullptr;
  const float* constant = nullptr;
  const void* add = nullptr;  // may be null; as dy
};

// dz is dy, with relu only where scale * x + shift is above 0.
struct BatchNormKernels {
  void (*moments)(const BatchNormArgs&);
  void (*apply)(const BatchNormArgs&);  // y = z, with relu at least 0; y may be x
  void (*gradient_sums)(const BatchNormArgs&);
  void (*gradient_apply)(const BatchNormArgs&);  // y may be dy, x or add
};

}  // namespace trainyard::engine
