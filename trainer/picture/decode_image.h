// A picture file → pixels.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "trainer/picture/image.h"

namespace trainyard::engine {

// A PNG or a JPEG; its first bytes tell which. InvalidArgument: neither of them, larger than the
// bounds, or of a kind that DecodePng or DecodeJpeg refuses. DataLoss: it is damaged or cut off.
// Messages do not name the file, which the caller knows.
absl::StatusOr<Image> DecodeImage(std::string_view bytes);

}  // namespace trainyard::engine
