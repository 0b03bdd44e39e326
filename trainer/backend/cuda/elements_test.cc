#include "trainer/backend/cuda/elements.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "trainer/tensor/bfloat16.h"
#include "trainer/tensor/float16.h"

namespace trainyard::engine::cuda {
namespace {

TEST(Elements, AreRoundedToBfloat16AsEverywhere) {
  const float kInfinity = std::numeric_limits<float>::infinity();
  alignas(16) std::array<float, 12> values = {0.0f,   -0.0f,      1.0f,       1.00390625f, 1.01171875f, -3.14159265f,
                                              1e-40f, 3.4028e38f, -kInfinity, kInfinity,   65504.0f,    1e-8f};
  alignas(16) std::array<Bfloat16, 12> rounded;
  for (size_t i = 0; i < values.size(); i += 4) {
    float four[4];
    Load(&values[i], four);
    Store(four, &rounded[i]);
  }
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(Widened(rounded[i]), RoundToBfloat16(values[i])) << values[i];
  Bfloat16 of_nan;
  Narrow(std::bit_cast<float>(0x7f800001u), of_nan);  // whose bits lie in the lower half
  EXPECT_TRUE(std::isnan(Widened(of_nan)));
}

// By the definition of IEEE 754.
float ValueOfFloat16(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const auto fraction = static_cast<float>(bits & 1023);
  float magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) magnitude = fraction == 0 ? std::numeric_limits<float>::infinity() : std::nanf("");
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Elements, EveryFloat16IsWidenedAndNarrowedAsItIs) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const Float16 half{static_cast<uint16_t>(bits)};
    const float value = ValueOfFloat16(half.bits);
    Float16 back;
    Narrow(Widened(half), back);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(Widened(half)) && std::isnan(Widened(back))) << bits;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(Widened(half)), std::bit_cast<uint32_t>(value)) << bits;
      EXPECT_EQ(back.bits, half.bits);
    }
  }
}

// The places between two neighbours at which rounding turns.
TEST(Elements, AreRoundedToFloat16AsEverywhere) {
  const auto expect = [](float x) {
    Float16 rounded;
    Narrow(x, rounded);
    EXPECT_EQ(std::bit_cast<uint32_t>(Widened(rounded)), std::bit_cast<uint32_t>(RoundToFloat16(x))) << x;
  };
  for (uint16_t bits = 0; bits < 0x7c00; ++bits) {
    const float low = ValueOfFloat16(bits);
    const float high = bits == 0x7bff ? 65536.0f : ValueOfFloat16(static_cast<uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    for (const float x : {middle, std::nextafter(middle, low), std::nextafter(middle, high)}) {
      expect(x);
      expect(-x);
    }
  }
  for (const float x : {1e-45f, 1e-30f, 65536.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    expect(x);
    expect(-x);
  }
}

TEST(Elements, NeighboursDivideARowAndAreAligned) {
  alignas(64) std::array<float, 8> floats;
  alignas(64) std::array<Bfloat16, 8> halves;
  EXPECT_EQ(NeighboursIn(12), 4);
  EXPECT_EQ(NeighboursIn(50), 2);
  EXPECT_EQ(NeighboursIn(7), 1);
  EXPECT_EQ(NeighboursIn(12, floats.data(), halves.data()), 4);
  EXPECT_EQ(NeighboursIn(12, floats.data(), &halves[2]), 2);
  EXPECT_EQ(NeighboursIn(12, &floats[1], halves.data()), 1);
  EXPECT_EQ(NeighboursIn(12, static_cast<const float*>(nullptr), halves.data()), 4);
}

}  // namespace
}  // namespace trainyard::engine::cuda
