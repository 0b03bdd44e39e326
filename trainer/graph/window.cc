#include "trainer/graph/window.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::engine {

absl::StatusOr<WindowGeometry> PlaceWindow(const Window& window, const Shape& input) {
  TY_CHECK(input.rank() == 4);
  WindowGeometry geometry;
  for (int axis = 0; axis < 2; ++axis) {
    const int64_t in = input[axis + 1];
    const int64_t size = window.size[axis];
    const int64_t stride = window.stride[axis];
    if (size <= 0 || stride <= 0) {
      return absl::InvalidArgumentError(fmt::format("window {}x{} with stride {}x{}: size and stride must be at least 1", window.size[0],
                                                    window.size[1], window.stride[0], window.stride[1]));
    }
    if (window.padding == Padding::kValid && in < size) {
      return absl::InvalidArgumentError(
          fmt::format("window {}x{} does not fit into the input of {}x{}; use a smaller window or padding 'same'", window.size[0],
                      window.size[1], input[1], input[2]));
    }
    const bool same = window.padding == Padding::kSame;
    geometry.in[axis] = in;
    geometry.out[axis] = same ? (in + stride - 1) / stride : (in - size) / stride + 1;
    geometry.pad_before[axis] = same ? std::max<int64_t>((geometry.out[axis] - 1) * stride + size - in, 0) / 2 : 0;
  }
  return geometry;
}

}  // namespace trainyard::engine
