#include "trainer/picture/exif_orientation.h"

#include <algorithm>
#include <utility>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

constexpr size_t kEntryBytes = 12;
constexpr uint16_t kOrientationTag = 0x0112;
constexpr uint16_t kShort = 3;
constexpr int kUprightOrientation = 1;

// Numbers of a TIFF block, in its byte order; 0 outside it.
struct TiffBlock {
  std::span<const uint8_t> bytes;
  bool big_endian = false;

  uint32_t Number(size_t at, size_t size) const {
    if (at > bytes.size() || bytes.size() - at < size) return 0;
    uint32_t number = 0;
    for (size_t i = 0; i < size; ++i) number = number << 8 | bytes[at + (big_endian ? i : size - 1 - i)];
    return number;
  }
  uint16_t Short(size_t at) const { return static_cast<uint16_t>(Number(at, 2)); }
};

}  // namespace

int ExifOrientation(std::span<const uint8_t> app1) {
  constexpr std::string_view kHead("Exif\0\0", 6);
  if (app1.size() < kHead.size() || !std::equal(kHead.begin(), kHead.end(), app1.begin())) return kUprightOrientation;
  TiffBlock block{.bytes = app1.subspan(kHead.size())};
  block.big_endian = block.Short(0) == 0x4d4d;  // MM, else II
  const size_t directory = block.Number(4, 4);
  const size_t entries = block.Short(directory);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (block.Short(entry) != kOrientationTag) continue;
    const int found = block.Short(entry + 8);
    return block.Short(entry + 2) == kShort && found >= 1 && found <= 8 ? found : kUprightOrientation;
  }
  return kUprightOrientation;
}

Image Upright(Image image, int orientation) {
  TY_CHECK(orientation >= 1 && orientation <= 8);
  if (orientation == kUprightOrientation) return image;
  const bool sides_change = orientation >= 5;
  Image upright{.height = sides_change ? image.width : image.height,
                .width = sides_change ? image.height : image.width,
                .pixels = std::vector<uint8_t>(image.pixels.size())};
  // The row and column of the stored picture that an upright pixel comes from.
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  uint8_t* to = upright.pixels.data();
  for (int y = 0; y < upright.height; ++y) {
    for (int x = 0; x < upright.width; ++x, to += kRgbChannels) {
      int row = sides_change ? x : y;
      int column = sides_change ? y : x;
      if (from_bottom) row = image.height - 1 - row;
      if (from_right) column = image.width - 1 - column;
      std::copy_n(image.pixels.data() + (static_cast<size_t>(row) * image.width + column) * kRgbChannels, kRgbChannels, to);
    }
  }
  return upright;
}

}  // namespace trainyard::engine
