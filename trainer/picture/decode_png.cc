#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>

#include "trainer/base/status_macros.h"
#include "trainer/picture/png.h"

namespace trainyard::engine {
namespace {

// libpng around one text. Its simplified interface would apply the file's gamma, which Pillow,
// torchvision and TensorFlow do not. libpng leaves a failed call by longjmp, so the functions with
// setjmp hold nothing that must be destroyed. libpng then keeps `message`.
class PngReader {
 public:
  explicit PngReader(std::string_view bytes) : left_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, OnError, OnWarning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  // The header: then height, width and may_be_transparent are known.
  bool ReadHeader() {
    if (info_ == nullptr) return false;
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, this, Read);
    png_read_info(png_, info_);
    return true;
  }
  png_uint_32 height() const { return png_get_image_height(png_, info_); }
  png_uint_32 width() const { return png_get_image_width(png_, info_); }
  // Also where one colour stands for transparent pixels (the chunk tRNS).
  bool may_be_transparent() const {
    return (png_get_color_type(png_, info_) & PNG_COLOR_MASK_ALPHA) != 0 || png_get_valid(png_, info_, PNG_INFO_tRNS) != 0;
  }

  // RGB, or RGBA where pixels may be transparent, of 8 bits: `pixels` holds height x width x that.
  bool ReadPixels(uint8_t* pixels, size_t row_bytes) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_expand(png_);
    png_set_scale_16(png_);
    png_set_gray_to_rgb(png_);
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (png_get_rowbytes(png_, info_) != row_bytes) png_error(png_, "its rows have another length than its header says");
    for (int pass = 0; pass < passes; ++pass) {
      for (png_uint_32 row = 0; row < height(); ++row) png_read_row(png_, pixels + row * row_bytes, nullptr);
    }
    png_read_end(png_, nullptr);
    return true;
  }

  absl::Status Error() const { return absl::DataLossError(fmt::format("the PNG cannot be read: {}", message_)); }

 private:
  static void Read(png_structp png, png_bytep out, size_t size) {
    auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (size > reader.left_.size()) png_error(png, "it ends too early");
    std::memcpy(out, reader.left_.data(), size);
    reader.left_.remove_prefix(size);
  }
  [[noreturn]] static void OnError(png_structp png, png_const_charp message) {
    auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(reader.message_, message, sizeof(reader.message_) - 1);
    png_longjmp(png, 1);
  }
  static void OnWarning(png_structp /*png*/, png_const_charp /*message*/) {}

  std::string_view left_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  char message_[128] = "out of memory";
};

}  // namespace

bool IsPng(std::string_view bytes) { return bytes.starts_with("\x89PNG\r\n\x1a\n"); }

absl::StatusOr<Image> DecodePng(std::string_view bytes) {
  PngReader reader(bytes);
  if (!reader.ReadHeader()) return reader.Error();
  TY_RETURN_IF_ERROR(CheckImageBounds("PNG", reader.height(), reader.width()));
  const bool may_be_transparent = reader.may_be_transparent();
  const size_t row_bytes = size_t{reader.width()} * (kRgbChannels + (may_be_transparent ? 1 : 0));
  Image decoded{.height = static_cast<int>(reader.height()), .width = static_cast<int>(reader.width()), .pixels = {}};
  decoded.pixels.resize(reader.height() * row_bytes);
  uint8_t* const pixels = decoded.pixels.data();
  if (!reader.ReadPixels(pixels, row_bytes)) return reader.Error();
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
