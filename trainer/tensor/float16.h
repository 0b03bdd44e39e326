// float16: IEEE 754 binary16, of 1 sign bit, 5 exponent bits and 10 bits of fraction.
#pragma once

#include <cmath>

namespace trainyard::engine {

inline constexpr float kLargestFloat16 = 65504.0f;
inline constexpr float kLeastFloat16 = 0x1p-24f;  // above 0

// The nearest value that float16 holds, of two as near the one whose last bit is 0. From 65520 on
// it is infinite; a NaN stays one.
inline float RoundToFloat16(float x) {
  if (x == 0.0f || !std::isfinite(x)) return x;
  const float unit = std::fmax(std::ldexp(1.0f, std::ilogb(x) - 10), kLeastFloat16);  // of the last bit
  const float rounded = std::nearbyint(x / unit) * unit;
  return std::fabs(rounded) > kLargestFloat16 ? std::copysign(HUGE_VALF, x) : rounded;
}

}  // namespace trainyard::engine
