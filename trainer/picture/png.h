// Pixels as PNG, both ways.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "trainer/picture/image.h"

namespace trainyard::engine {

// Pixels of one image, row-major HWC, 1 (grey), 3 (RGB) or 4 (RGBA) channels.
struct ImageView {
  int height = 0;
  int width = 0;
  int channels = 1;
  std::span<const uint8_t> pixels;
};

// Whether EncodePng takes images of that shape.
bool HasPngForm(int64_t height, int64_t width, int64_t channels);

// InvalidArgument names extents, channels or a number of pixels that do not fit together.
absl::StatusOr<std::string> EncodePng(const ImageView& image);

bool IsPng(std::string_view bytes);

// Of 8 or 16 bits, grey, RGB or with a palette; 16 bits become 8. InvalidArgument: larger than the
// bounds of image.h, or not opaque; DataLoss: libpng cannot read it.
absl::StatusOr<Image> DecodePng(std::string_view bytes);

}  // namespace trainyard::engine
