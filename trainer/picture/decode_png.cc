#include <fmt/format.h>
#include <png.h>

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
  image.format = PNG_FORMAT_RGBA;
  std::vector<uint8_t> rgba(PNG_IMAGE_SIZE(image));
  if (png_image_finish_read(&image, nullptr, rgba.data(), /*row_stride=*/0, nullptr) == 0) {
    return absl::DataLossError(fmt::format("the PNG cannot be read: {}", image.message));
  }
  Image decoded{.height = static_cast<int>(image.height), .width = static_cast<int>(image.width), .pixels = {}};
  decoded.pixels.reserve(rgba.size() / 4 * kRgbChannels);
  for (size_t i = 0; i < rgba.size(); i += 4) {
    if (rgba[i + 3] != 255) {
      return absl::InvalidArgumentError("the PNG has transparent pixels, expected an opaque picture; put it on a background first");
    }
    decoded.pixels.insert(decoded.pixels.end(), rgba.begin() + i, rgba.begin() + i + kRgbChannels);
  }
  return decoded;
}

}  // namespace trainyard::engine
