#include "trainer/backend/cpu/conv_geometry.h"

#include <algorithm>

#include "trainer/base/status_macros.h"
#include "trainer/graph/window.h"

namespace trainyard::engine {

absl::StatusOr<ConvGeometry> GeometryOf(const Window& window, const Shape& x, const Shape& kernel) {
  TY_ASSIGN_OR_RETURN(const WindowGeometry placed, PlaceWindow(window, x));
  return ConvGeometry{.samples = x[0],
                      .in_h = placed.in[0],
                      .in_w = placed.in[1],
                      .channels = kernel[2],
                      .out_h = placed.out[0],
                      .out_w = placed.out[1],
                      .outputs = kernel[3],
                      .kernel_h = window.size[0],
                      .kernel_w = window.size[1],
                      .stride_h = window.stride[0],
                      .stride_w = window.stride[1],
                      .pad_top = placed.pad_before[0],
                      .pad_left = placed.pad_before[1]};
}

void CopyCovered(const ConvGeometry& g, const float* image, int64_t first_row, int64_t rows, int64_t width, float* to) {
  const int64_t floats = width * g.channels;
  const int64_t left = g.pad_left * g.channels;
  const int64_t inside = std::min(g.in_w * g.channels, floats - left);
  for (int64_t row = first_row - g.pad_top; row < first_row - g.pad_top + rows; ++row, to += floats) {
    if (row < 0 || row >= g.in_h) {
      std::fill_n(to, floats, 0.0f);
      continue;
    }
    std::fill_n(to, left, 0.0f);
    std::copy_n(image + row * g.in_w * g.channels, inside, to + left);
    std::fill_n(to + left + inside, floats - left - inside, 0.0f);
  }
}

}  // namespace trainyard::engine
