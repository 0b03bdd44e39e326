#include "trainer/tensor/bfloat16.h"

#include <cstring>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

constexpr uint32_t kMagnitude = 0x7fffffff;
constexpr uint32_t kInfinity = 0x7f800000;
constexpr uint32_t kQuiet = 0x00400000;
constexpr uint32_t kUpperHalf = 0xffff0000;

// The bits of RoundToBfloat16(x), without a branch, so that the loops below become vectors. The
// upper half of a NaN stays a NaN.
inline uint32_t RoundedBits(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  return ((bits & kMagnitude) > kInfinity ? bits | kQuiet : rounded) & kUpperHalf;
}

inline void Store(uint32_t bits, std::byte* to) {
  const auto half = static_cast<uint16_t>(bits >> 16);
  std::memcpy(to, &half, sizeof(half));
}

}  // namespace

void ToBfloat16(std::span<const float> values, std::span<std::byte> bfloat16s) {
  TY_CHECK(bfloat16s.size() == 2 * values.size());
  const float* __restrict from = values.data();
  std::byte* __restrict to = bfloat16s.data();
  for (size_t i = 0; i < values.size(); ++i) Store(RoundedBits(from[i]), to + 2 * i);
}

void FromBfloat16(std::span<const std::byte> bfloat16s, std::span<float> values) {
  TY_CHECK(bfloat16s.size() == 2 * values.size());
  const std::byte* __restrict from = bfloat16s.data();
  float* __restrict to = values.data();
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t half = 0;
    std::memcpy(&half, from + 2 * i, sizeof(half));
    to[i] = std::bit_cast<float>(static_cast<uint32_t>(half) << 16);
  }
}

void RoundToBfloat16(std::span<float> values) {
  for (float& value : values) value = std::bit_cast<float>(RoundedBits(value));
}

void ToBfloat16(std::span<const float> values, std::span<float> residual, std::span<std::byte> bfloat16s) {
  TY_CHECK(bfloat16s.size() == 2 * values.size() && residual.size() == values.size());
  const float* __restrict from = values.data();
  float* __restrict rest = residual.data();
  std::byte* __restrict to = bfloat16s.data();
  for (size_t i = 0; i < values.size(); ++i) {
    const float whole = from[i] + rest[i];
    const uint32_t bits = RoundedBits(whole);
    const float left = whole - std::bit_cast<float>(bits);
    rest[i] = (bits & kMagnitude) < kInfinity ? left : 0.0F;
    Store(bits, to + 2 * i);
  }
}

}  // namespace trainyard::engine
