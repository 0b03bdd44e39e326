// Any bytes: refused with a status, or a picture within the bounds.
#include "trainer/base/check.h"
#include "trainer/picture/decode_image.h"
#include "trainer/picture/exif_orientation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trainyard::engine;  // NOLINT(google-build-using-namespace): a fuzz target's only function
  const int orientation = ExifOrientation({data, size});
  TY_CHECK(orientation >= 1 && orientation <= 8);
  const absl::StatusOr<Image> image = DecodeImage({reinterpret_cast<const char*>(data), size});
  if (!image.ok()) return 0;
  TY_CHECK(image->height <= kMaxImageSide && image->width <= kMaxImageSide);
  TY_CHECK(image->pixels.size() == static_cast<size_t>(image->height) * image->width * kRgbChannels);
  return 0;
}
