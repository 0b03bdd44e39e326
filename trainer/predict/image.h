// Pictures as a model takes them: PNG → pixels → the model's height, width and channels.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

// Row-major [height, width, 3], sRGB; a grey picture has three equal channels.
struct Image {
  int height = 0;
  int width = 0;
  std::vector<uint8_t> pixels;
};

// Of one picture, before it is decoded.
inline constexpr int64_t kMaxImagePixels = int64_t{1} << 25;
inline constexpr int64_t kMaxImageSide = 1 << 14;

bool IsPng(std::string_view bytes);

// Of 8 or 16 bits, grey, RGB or with a palette; 16 bits become 8. InvalidArgument: larger than the two bounds, or not opaque; DataLoss:
// libpng cannot read it. Messages do not name the file, which the caller knows.
absl::StatusOr<Image> DecodePng(std::string_view bytes);

// OK where a model with examples of `shape` takes pictures: [height, width], [height, width, 1] (grey) or [height, width, 3].
absl::Status CheckTakesImages(const Shape& shape);

// The picture as an example of `shape`, which CheckTakesImages has passed. Grey is (299 R + 587 G + 114 B) / 1000, rounded (ITU-R BT.601).
// Another size is InvalidArgument, or with `resize` scaled: linear interpolation, and in making smaller a mean weighted by a triangle over
// all the pixels that are merged, as Pillow's BILINEAR.
absl::StatusOr<std::vector<uint8_t>> FitImage(const Image& image, const Shape& shape, bool resize);

}  // namespace trainyard::engine
