// bfloat16: the upper half of an f32.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace trainyard::engine {

// The nearest value that bfloat16 holds, of two as near the one whose last bit is 0. Beyond the
// largest it is infinite; a NaN stays one.
inline float RoundToBfloat16(float x) {
  if (std::isnan(x)) return x;
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
}

}  // namespace trainyard::engine
