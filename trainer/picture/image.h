// A picture in memory, and the bounds of one.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace trainyard::engine {

inline constexpr int kRgbChannels = 3;

// Row-major [height, width, 3], sRGB; a grey picture has three equal channels.
struct Image {
  int height = 0;
  int width = 0;
  std::vector<uint8_t> pixels;
};

// Larger pictures are not decoded.
inline constexpr int64_t kMaxImagePixels = int64_t{1} << 25;
inline constexpr int64_t kMaxImageSide = 1 << 14;
// Longer files are not read.
inline constexpr int64_t kMaxImageBytes = int64_t{64} << 20;

// InvalidArgument: a picture of `format` ("PNG", "JPEG") is larger than the bounds.
absl::Status CheckImageBounds(std::string_view format, int64_t height, int64_t width);

}  // namespace trainyard::engine
