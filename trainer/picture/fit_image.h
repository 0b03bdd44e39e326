// Pictures as a model takes them: pixels → the model's height, width and channels.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/picture/image.h"
#include "trainer/tensor/shape.h"

namespace trainyard::engine {

// What happens to a picture of another size than the model's. kExact: it is refused. kStretch: it
// is scaled, height and width each. kCrop: the largest part of the model's proportions, from its
// middle, is scaled.
enum class ImageFit : uint8_t { kExact, kStretch, kCrop };

// OK where a model with examples of `shape` takes pictures: [height, width], [height, width, 1]
// (grey) or [height, width, 3].
absl::Status CheckTakesImages(const Shape& shape);

// The picture as an example of `shape`, which CheckTakesImages has passed. Grey is (299 R + 587 G +
// 114 B) / 1000, rounded (ITU-R BT.601). It is scaled as Pillow's BILINEAR scales, by linear
// interpolation. A smaller size is a mean of the merged pixels, with the weights of a triangle. The
// cropped part is that of Keras' `crop_to_aspect_ratio`. InvalidArgument: another size, of kExact.
absl::StatusOr<std::vector<uint8_t>> FitImage(const Image& image, const Shape& shape, ImageFit fit);

}  // namespace trainyard::engine
