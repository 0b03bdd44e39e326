// Convolutions as a device is asked for them.
#pragma once

#include <cstdint>

#include "trainer/backend/cuda/window_bodies.h"

namespace trainyard::engine::cuda {

// x [samples, in, C], w [size, C, D], z [samples, out, D]
struct ConvolutionSizes {
  int64_t samples;
  WindowPlace window;  // with C
  int64_t filters;     // D

  int64_t in_pixels() const { return int64_t{window.in[0]} * window.in[1]; }
  int64_t out_pixels() const { return int64_t{window.out[0]} * window.out[1]; }
  // Of the matrix that w is.
  int64_t depth() const { return int64_t{window.size[0]} * window.size[1] * window.channels; }
  int64_t z_elements() const { return samples * out_pixels() * filters; }
  // The rows are x itself.
  bool pointwise() const;
};

// Which of x, w, z the product makes; the other two go in.
enum class ConvolutionPart : uint8_t { kOutput, kInputGradient, kWeightGradient };

// Which of the images of a convolution are narrow (ValueSpec); the others, and all kernels, are
// f32.
struct NarrowImages {
  bool x = false, z = false;
};

struct ConvolutionShape {
  ConvolutionSizes sizes;
  ConvolutionPart part = ConvolutionPart::kOutput;
  Element takes = Element::kFloat32;  // what goes in
  Element makes = Element::kFloat32;
  bool tf32 = false;  // what goes in may be rounded to tf32
};

}  // namespace trainyard::engine::cuda
