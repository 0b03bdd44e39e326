// How bytes become the numbers that a model sees.
#pragma once

namespace trainyard::engine {

// Images of bytes are multiplied by it, so that pixels are 0…1.
inline constexpr float kPixelScale = 1.0F / 255.0F;

}  // namespace trainyard::engine
