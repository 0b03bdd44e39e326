#include "trainer/picture/decode_image.h"

#include <fmt/format.h>

#include <string>

#include "trainer/picture/jpeg.h"
#include "trainer/picture/png.h"

namespace trainyard::engine {

absl::StatusOr<Image> DecodeImage(std::string_view bytes) {
  if (IsPng(bytes)) return DecodePng(bytes);
  if (IsJpeg(bytes)) return DecodeJpeg(bytes);
  if (bytes.empty()) return absl::InvalidArgumentError("the file is empty, expected a PNG or JPEG picture");
  std::string head;
  for (const unsigned char byte : bytes.substr(0, 8)) head += fmt::format("{}{:02x}", head.empty() ? "" : " ", byte);
  return absl::InvalidArgumentError(fmt::format("the file begins with the bytes {}, expected a PNG or JPEG picture", head));
}

}  // namespace trainyard::engine
