#include "trainer/picture/image.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::engine {

absl::Status CheckImageBounds(std::string_view format, int64_t height, int64_t width) {
  if (std::max(height, width) <= kMaxImageSide && height * width <= kMaxImagePixels) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("the {} has {} x {} pixels (height x width), at most {} a side and {} in all are read",
                                                format, height, width, kMaxImageSide, kMaxImagePixels));
}

}  // namespace trainyard::engine
