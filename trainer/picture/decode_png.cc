#include <fmt/format.h>
#include <png.h>

#include <cstring>

#include "trainer/base/status_macros.h"
#include "trainer/picture/png.h"

namespace trainyard::engine {
namespace {

// Frees what libpng holds on every way out.
struct PngReader {
  png_image image{};
  PngReader() {
    image.version = PNG_IMAGE_VERSION;
    image.flags = PNG_IMAGE_FLAG_16BIT_sRGB;
  }
  ~PngReader() { png_image_free(&image); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
};

}  // namespace

bool IsPng(std::string_view bytes) { return bytes.starts_with("\x89PNG\r\n\x1a\n"); }

absl::StatusOr<Image> DecodePng(std::string_view bytes) {
  PngReader reader;
  png_image& image = reader.image;
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) {
    return absl::DataLossError(fmt::format("the PNG cannot be read: {}", image.message));
  }
  TY_RETURN_IF_ERROR(CheckImageBounds("PNG", image.height, image.width));
  // Also where one colour stands for transparent pixels (the chunk tRNS).
  const bool may_be_transparent = (image.format & PNG_FORMAT_FLAG_ALPHA) != 0;
  image.format = may_be_transparent ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
  Image decoded{.height = static_cast<int>(image.height), .width = static_cast<int>(image.width), .pixels = {}};
  decoded.pixels.resize(PNG_IMAGE_SIZE(image));
  uint8_t* const pixels = decoded.pixels.data();
  if (png_image_finish_read(&image, nullptr, pixels, /*row_stride=*/0, nullptr) == 0) {
    return absl::DataLossError(fmt::format("the PNG cannot be read: {}", image.message));
  }
  if (may_be_transparent) {
    const size_t count = decoded.pixels.size() / (kRgbChannels + 1);
    for (size_t i = 0; i < count; ++i) {
      const uint8_t* const rgba = pixels + i * (kRgbChannels + 1);
      if (rgba[kRgbChannels] != 255) {
        return absl::InvalidArgumentError("the PNG has transparent pixels, expected an opaque picture; put it on a background first");
      }
      std::memmove(pixels + i * kRgbChannels, rgba, kRgbChannels);
    }
    decoded.pixels.resize(count * kRgbChannels);
  }
  return decoded;
}

}  // namespace trainyard::engine
