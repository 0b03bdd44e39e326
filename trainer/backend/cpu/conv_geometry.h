// Where a convolution's windows lie, and what it reads of an image in rows.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "trainer/graph/op.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

struct ConvGeometry {
  int64_t samples = 0, in_h = 0, in_w = 0, channels = 0, out_h = 0, out_w = 0, outputs = 0;
  int64_t kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_top = 0, pad_left = 0;
  // Rows and columns that all windows cover, from the first one's corner on.
  int64_t covered_h() const { return (out_h - 1) * stride_h + kernel_h; }
  int64_t covered_w() const { return (out_w - 1) * stride_w + kernel_w; }
  bool padded() const { return pad_top > 0 || pad_left > 0 || covered_h() > in_h || covered_w() > in_w; }
  // Pixels of y are rows of a product.
  bool pointwise() const { return kernel_h == 1 && kernel_w == 1 && stride_h == 1 && stride_w == 1 && !padded(); }
};

// x [N, H, W, C], kernel [Kh, Kw, C, D]. Errors of PlaceWindow.
absl::StatusOr<ConvGeometry> GeometryOf(const Window& window, const Shape& x, const Shape& kernel);

// to [rows][width][channels]: the image from row `first_row` and column 0 of what windows cover on,
// zeros beyond it.
void CopyCovered(const ConvGeometry& geometry, const float* image, int64_t first_row, int64_t rows, int64_t width, float* to);

}  // namespace trainyard::engine
