// Pixels as PNG.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace trainyard::engine {

// Pixels of one image, row-major HWC, 1 (grey), 3 (RGB) or 4 (RGBA) channels.
struct ImageView {
  int height = 0;
  int width = 0;
  int channels = 1;
  std::span<const uint8_t> pixels;
};

// InvalidArgument names extents, channels or a number of pixels that do not fit together.
absl::StatusOr<std::string> EncodePng(const ImageView& image);

}  // namespace trainyard::engine
