#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <optional>

#include "trainer/picture/png.h"

namespace trainyard::engine {
namespace {

constexpr int kMaxExtent = 1 << 14;

std::optional<png_uint_32> FormatOf(int64_t channels) {
  switch (channels) {
    case 1:
      return PNG_FORMAT_GRAY;
    case 3:
      return PNG_FORMAT_RGB;
    case 4:
      return PNG_FORMAT_RGBA;
    default:
      return std::nullopt;
  }
}

bool HasPngExtents(int64_t height, int64_t width) { return std::min(height, width) >= 1 && std::max(height, width) <= kMaxExtent; }

}  // namespace

bool HasPngForm(int64_t height, int64_t width, int64_t channels) { return FormatOf(channels) && HasPngExtents(height, width); }

absl::StatusOr<std::string> EncodePng(const ImageView& view) {
  const std::optional<png_uint_32> format = FormatOf(view.channels);
  if (!format) return absl::InvalidArgumentError(fmt::format("an image has {} channels, expected 1, 3 or 4", view.channels));
  if (!HasPngExtents(view.height, view.width)) {
    return absl::InvalidArgumentError(
        fmt::format("an image is {} x {} pixels, expected 1 to {} each", view.height, view.width, kMaxExtent));
  }
  const size_t expected = size_t{1} * view.height * view.width * view.channels;
  if (view.pixels.size() != expected) {
    return absl::InvalidArgumentError(fmt::format("an image of {} x {} x {} needs {} bytes, it has {}", view.height, view.width,
                                                  view.channels, expected, view.pixels.size()));
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(view.width);
  image.height = static_cast<png_uint_32>(view.height);
  image.format = *format;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&image, bytes.data(), &size, /*convert_to_8_bit=*/0, view.pixels.data(), /*row_stride=*/0, nullptr) == 0) {
    return absl::InternalError(fmt::format("cannot encode an image as PNG: {}", image.message));
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace trainyard::engine
