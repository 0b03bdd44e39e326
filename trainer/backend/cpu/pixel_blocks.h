// A value in panels, cut into blocks of pixels: what batch normalisation works on at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "trainer/backend/cpu/batch_norm_args.h"
#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/layout.h"
#include "trainer/graph/node.h"

namespace trainyard::engine {

// None of the blocks crosses panels. The cut is a function of the shape and of `pixels` alone.
class PixelBlocks {
 public:
  // At most: sums of a block are floats, sums of blocks are doubles.
  static constexpr int64_t kMostPixels = 256;

  // Of a value in f32 or in bf16. A block has so many pixels, a panel's last one perhaps fewer.
  explicit PixelBlocks(const ValueSpec& spec, int64_t pixels = kMostPixels)
      : layout_(spec.shape), bf16_(spec.narrow), pixels_(pixels), per_panel_((layout_.pixels + pixels - 1) / pixels) {}

  int channels() const { return static_cast<int>(layout_.channels); }
  int64_t per_panel() const { return per_panel_; }
  int64_t count() const { return layout_.panels * per_panel_; }
  // Values under each channel.
  double values() const { return static_cast<double>(layout_.samples * layout_.pixels); }

  // The element where block `block` begins; its pixels and lanes are set in `args`.
  int64_t Place(int64_t block, BatchNormArgs& args) const {
    const int64_t panel = block / per_panel_;
    const int64_t first = block % per_panel_ * pixels_;
    args.channels = channels();
    args.pixels = std::min(pixels_, layout_.pixels - first);
    args.lanes = static_cast<int>(std::min<int64_t>(kLanes, layout_.samples - panel * kLanes));
    return (panel * layout_.pixels + first) * layout_.channels * kLanes;
  }

  // Where an element of the value, or of one like it, lies.
  const void* At(const void* values, int64_t element) const { return static_cast<const std::byte*>(values) + element * bytes(); }
  void* At(void* values, int64_t element) const { return static_cast<std::byte*>(values) + element * bytes(); }

  bool bf16() const { return bf16_; }
  const BatchNormKernels& Kernels(const CpuDevice& device) const { return bf16_ ? device.bf16->batch_norm : device.kernels.batch_norm; }

 private:
  int64_t bytes() const { return bf16_ ? sizeof(uint16_t) : sizeof(float); }

  PanelLayout layout_;
  bool bf16_;
  int64_t pixels_, per_panel_;
};

}  // namespace trainyard::engine
