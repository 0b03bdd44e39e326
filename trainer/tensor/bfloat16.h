// bfloat16: the upper half of an f32.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace trainyard::engine {

// The nearest value that bfloat16 holds, of two as near the one whose last bit is 0. Beyond the
// largest it is infinite; a NaN stays one.
inline float RoundToBfloat16(float x) {
  if (std::isnan(x)) return x;
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
}

// Loops over many values. `bfloat16`s are bytes, little-endian, at any address: as they travel.

// The same value for each, in 16 bits. Of a NaN whose bits lie in the lower half a quiet one is
// left.
void ToBfloat16(std::span<const float> values, std::span<std::byte> bfloat16s);
void FromBfloat16(std::span<const std::byte> bfloat16s, std::span<float> values);
void RoundToBfloat16(std::span<float> values);

// Rounds values[i] + residual[i] and leaves in the residual what that has taken off, exactly. Where
// the rounded value is not finite nothing is left.
void ToBfloat16(std::span<const float> values, std::span<float> residual, std::span<std::byte> bfloat16s);

}  // namespace trainyard::engine
