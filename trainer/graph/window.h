// Where a sliding window lies over an image: one arithmetic for convolution and pooling, on every
// backend.
#pragma once

#include "absl/status/statusor.h"
#include "trainer/graph/op.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

// Output row o covers input rows o * stride - pad_before .. + size; rows outside [0, in) are
// padding. Index 0 is height, 1 width.
struct WindowGeometry {
  std::array<int64_t, 2> in;
  std::array<int64_t, 2> out;
  std::array<int64_t, 2> pad_before;
};

// For an input of [N, H, W, C]. InvalidArgument when size or stride is not positive or no whole
// window fits.
absl::StatusOr<WindowGeometry> PlaceWindow(const Window& window, const Shape& input);

// Whether the windows tile the image from its corner: no pixel belongs to two of them.
inline bool TilesImage(const Window& window) { return window.size == window.stride && window.padding == Padding::kValid; }

}  // namespace trainyard::engine
