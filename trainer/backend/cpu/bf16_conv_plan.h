// What bf16 convolutions and dense layers share: how they are cut, how pixels become pairs, and how
// sums are rounded.
#pragma once

#include <cstdint>

#include "trainer/backend/cpu/bf16_tiling.h"
#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/kernels.h"

namespace trainyard::engine {

inline int64_t ChannelPairs(int channels) { return (channels + 1) / 2; }

// The pairs that a window reads in a row of the image.
inline Bf16Tiling ConvTiling(int outputs, int kernel_h, int kernel_w, int channels) {
  return {outputs, kernel_h == 0 ? 0 : kernel_w * ChannelPairs(channels)};
}
inline Bf16Tiling ConvTiling(const ConvShape& shape) { return ConvTiling(shape.outputs, shape.kernel_h, shape.kernel_w, shape.channels); }

inline int64_t WeightsRow(const Bf16Tiling& tiling, int kernel_h) { return LeftRow(int64_t{kernel_h} * tiling.run_elements()); }

// The geometry of a run: padded images, cut into strips of rows of y (after pooling).
struct Bf16ConvPlan {
  Bf16Tiling tiling;
  bool in_place;                        // x is the operand
  int64_t pixel, padded_w, padded_row;  // elements of a pixel; pixels and elements of a row
  int rows, strip_rows, strips;         // of y in a panel
  int sum_pixels;                       // that wait for their rounding, where y is pairs
  int64_t window_floats;                // before the pool, of a row of windows
  int64_t strip_elements, bias_floats, thread_floats;

  Bf16ConvPlan(const ConvForwardArgs& args, int threads);

  static int64_t InputRows(const ConvShape& shape, int out_rows) { return int64_t{out_rows - 1} * shape.stride_h + shape.kernel_h; }
};

// Pixels in a row of a panel as pairs of channels.
void PackPixels(const Bf16Kernels& kernels, const float* from, int64_t pixels, int channels, uint16_t* to);

// `vectors` (even) vectors of sums, with what is added to them, activated and rounded, at `place`
// of y, which is pairs. The sums are used up.
void StoreRounded(const ConvForwardArgs& args, float* sums, int64_t place, int64_t vectors, const CpuDevice& device);

}  // namespace trainyard::engine
