#include "trainer/backend/cuda/elements.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "trainer/tensor/bfloat16.h"

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
