#include "trainer/picture/jpeg.h"

#include <fmt/format.h>
// clang-format off: jerror.h numbers its messages by what jpeglib.h says
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <csetjmp>
#include <string>

#include "trainer/base/status_macros.h"
#include "trainer/picture/exif_orientation.h"

namespace trainyard::engine {
namespace {

// A progressive picture of more scans takes much time for few bytes. Encoders write about ten.
constexpr int kMaxScans = 64;
constexpr unsigned kMaxMarkerBytes = 0xffff;

// One picture's decompression. libjpeg leaves a call by longjmp when it cannot go on: functions
// that set the jump have no objects of their own, and what they change lives here.
struct Decompression {
  jpeg_decompress_struct picture{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf out{};
  char message[JMSG_LENGTH_MAX] = {};
  bool damaged = false;
  bool too_many_scans = false;

  Decompression() = default;
  Decompression(const Decompression&) = delete;
  Decompression& operator=(const Decompression&) = delete;
  ~Decompression() {
    if (picture.mem != nullptr) jpeg_destroy_decompress(&picture);
  }
};

Decompression& Of(j_common_ptr picture) { return *static_cast<Decompression*>(picture->client_data); }

[[noreturn]] void LeaveCall(j_common_ptr picture) {
  picture->err->format_message(picture, Of(picture).message);
  std::longjmp(Of(picture).out, 1);
}

// The warnings that pixels are missing or made up. The others tell of oddities that do no harm,
// such as bytes between markers.
bool MeansDamage(int code) {
  return code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_MUST_RESYNC ||
         code == JWRN_ARITH_BAD_CODE || code == JWRN_NOT_SEQUENTIAL;
}

void Note(j_common_ptr picture, int level) {
  if (level >= 0 || Of(picture).damaged || !MeansDamage(picture->err->msg_code)) return;
  Of(picture).damaged = true;
  picture->err->format_message(picture, Of(picture).message);
}

void CountScans(j_common_ptr picture) {
  Decompression& decompression = Of(picture);
  if (decompression.picture.input_scan_number <= kMaxScans) return;
  decompression.too_many_scans = true;
  std::longjmp(decompression.out, 1);
}

// False: libjpeg cannot go on, and `message` says why.
bool ReadHeader(Decompression& decompression, const unsigned char* bytes, size_t size) {
  jpeg_decompress_struct& picture = decompression.picture;
  picture.err = jpeg_std_error(&decompression.errors);
  decompression.errors.error_exit = LeaveCall;
  decompression.errors.emit_message = Note;
  decompression.errors.output_message = [](j_common_ptr) {};
  picture.client_data = &decompression;
  if (setjmp(decompression.out) != 0) return false;  // NOLINT(cert-err52-cpp): the way of libjpeg
  jpeg_create_decompress(&picture);
  decompression.progress.progress_monitor = CountScans;
  picture.progress = &decompression.progress;
  jpeg_mem_src(&picture, bytes, size);
  jpeg_save_markers(&picture, JPEG_APP0 + 1, kMaxMarkerBytes);
  jpeg_read_header(&picture, TRUE);
  return true;
}

bool ReadPixels(Decompression& decompression, uint8_t* pixels) {
  jpeg_decompress_struct& picture = decompression.picture;
  if (setjmp(decompression.out) != 0) return false;  // NOLINT(cert-err52-cpp)
  picture.out_color_space = JCS_RGB;
  picture.dct_method = JDCT_ISLOW;  // the same pixels on every processor
  jpeg_start_decompress(&picture);
  const size_t row_bytes = size_t{picture.output_width} * kRgbChannels;
  while (picture.output_scanline < picture.output_height) {
    JSAMPROW row = pixels + picture.output_scanline * row_bytes;
    jpeg_read_scanlines(&picture, &row, 1);
  }
  jpeg_finish_decompress(&picture);
  return true;
}

absl::Status CannotRead(const Decompression& decompression) {
  if (decompression.too_many_scans) {
    return absl::InvalidArgumentError(fmt::format("the JPEG has more than {} scans; write it again with fewer", kMaxScans));
  }
  return absl::DataLossError(fmt::format("the JPEG cannot be read: {}", decompression.message));
}

int OrientationOf(const jpeg_decompress_struct& picture) {
  for (jpeg_saved_marker_ptr marker = picture.marker_list; marker != nullptr; marker = marker->next) {
    const int found = ExifOrientation({marker->data, marker->data_length});
    if (found != 1) return found;
  }
  return 1;
}

}  // namespace

bool IsJpeg(std::string_view bytes) { return bytes.starts_with("\xff\xd8\xff"); }

absl::StatusOr<Image> DecodeJpeg(std::string_view bytes) {
  Decompression decompression;
  const jpeg_decompress_struct& picture = decompression.picture;
  if (!ReadHeader(decompression, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size())) return CannotRead(decompression);
  TY_RETURN_IF_ERROR(CheckImageBounds("JPEG", picture.image_height, picture.image_width));
  if (picture.jpeg_color_space == JCS_CMYK || picture.jpeg_color_space == JCS_YCCK) {
    return absl::InvalidArgumentError("the JPEG has CMYK colours, expected grey or RGB; convert it");
  }
  Image image{.height = static_cast<int>(picture.image_height), .width = static_cast<int>(picture.image_width), .pixels = {}};
  const int orientation = OrientationOf(picture);  // the markers go with the end of the decompression
  image.pixels.resize(static_cast<size_t>(image.height) * image.width * kRgbChannels);
  if (!ReadPixels(decompression, image.pixels.data()) || decompression.damaged) return CannotRead(decompression);
  return Upright(std::move(image), orientation);
}

}  // namespace trainyard::engine
