// JPEG → pixels.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "trainer/picture/image.h"

namespace trainyard::engine {

bool IsJpeg(std::string_view bytes);

// Grey or colours, baseline or progressive, turned as its EXIF orientation says. InvalidArgument:
// larger than the bounds of image.h, of CMYK colours, of more than 64 scans, or of a kind that
// libjpeg-turbo does not read. DataLoss: it is damaged or cut off.
absl::StatusOr<Image> DecodeJpeg(std::string_view bytes);

}  // namespace trainyard::engine
