// The way in which a camera was held, as EXIF notes it.
#pragma once

#include <cstdint>
#include <span>

#include "trainer/picture/image.h"

namespace trainyard::engine {

// Of the data of a JPEG's APP1 marker: 1 to 8, tag 0x0112 of the first directory (Exif 2.32,
// 4.6.4). 1, upright, where the marker is not EXIF, has no such tag, or is damaged: it is no part
// of the pixels.
int ExifOrientation(std::span<const uint8_t> app1);

// The picture as it was seen. `orientation` is one of ExifOrientation's.
Image Upright(Image image, int orientation);

}  // namespace trainyard::engine
