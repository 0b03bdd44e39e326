#include "trainer/tensor/float16.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trainyard::engine {
namespace {

TEST(RoundToFloat16, TakesTheNearestValueAndOfTwoAsNearTheEvenOne) {
  EXPECT_EQ(RoundToFloat16(1.0f), 1.0f);
  EXPECT_EQ(RoundToFloat16(1.0f + 0x1p-10f), 1.0f + 0x1p-10f);
  EXPECT_EQ(RoundToFloat16(1.0f + 0x1p-11f), 1.0f);
  EXPECT_EQ(RoundToFloat16(1.0f + 3 * 0x1p-11f), 1.0f + 0x1p-9f);
  EXPECT_EQ(RoundToFloat16(-1.0f - 0x1.8p-11f), -1.0f - 0x1p-10f);
}

TEST(RoundToFloat16, BeyondTheLargestItIsInfiniteAndBelowTheLeastZero) {
  EXPECT_EQ(RoundToFloat16(65519.0f), kLargestFloat16);
  EXPECT_EQ(RoundToFloat16(65520.0f), HUGE_VALF);
  EXPECT_EQ(RoundToFloat16(-1e30f), -HUGE_VALF);
  EXPECT_EQ(RoundToFloat16(kLeastFloat16), kLeastFloat16);
  EXPECT_EQ(RoundToFloat16(0x1.8p-24f), 0x1p-23f);
  EXPECT_EQ(RoundToFloat16(0x1p-25f), 0.0f);
  EXPECT_TRUE(std::signbit(RoundToFloat16(-1e-30f)));
  EXPECT_EQ(RoundToFloat16(-1e-40f), 0.0f);
  EXPECT_TRUE(std::isnan(RoundToFloat16(std::nanf(""))));
}

}  // namespace
}  // namespace trainyard::engine
