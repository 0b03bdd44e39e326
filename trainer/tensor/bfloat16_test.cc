#include "trainer/tensor/bfloat16.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace trainyard::engine {
namespace {

using ::testing::Each;

constexpr float kInf = std::numeric_limits<float>::infinity();

// Of every exponent, with mantissas around the places where rounding turns.
std::vector<float> ManyValues() {
  std::vector<float> values;
  for (uint32_t upper = 0; upper < 0x10000; upper += 7) {
    for (const uint32_t lower : {0x0000U, 0x0001U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  return values;
}

std::vector<float> ThroughBfloat16(std::span<const float> values) {
  std::vector<std::byte> narrow(2 * values.size());
  ToBfloat16(values, narrow);
  std::vector<float> wide(values.size());
  FromBfloat16(narrow, wide);
  return wide;
}

TEST(Bfloat16, LoopsRoundAsOneValueIsRounded) {
  const std::vector<float> values = ManyValues();
  const std::vector<float> found = ThroughBfloat16(values);
  std::vector<float> in_place = values;
  RoundToBfloat16(in_place);
  for (size_t i = 0; i < values.size(); ++i) {
    const float expected = RoundToBfloat16(values[i]);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(found[i]) && std::isnan(in_place[i])) << std::bit_cast<uint32_t>(values[i]);
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(found[i]), std::bit_cast<uint32_t>(expected)) << std::bit_cast<uint32_t>(values[i]);
      EXPECT_EQ(std::bit_cast<uint32_t>(in_place[i]), std::bit_cast<uint32_t>(expected));
    }
  }
}

TEST(Bfloat16, BytesMayLieAtAnyAddressAndAreLittleEndian) {
  const std::array<float, 3> values = {1.0F, -2.5F, 3.0F};
  std::array<std::byte, 7> bytes{};
  ToBfloat16(values, std::span(bytes).subspan(1));
  EXPECT_EQ(bytes[1], std::byte{0x80});
  EXPECT_EQ(bytes[2], std::byte{0x3f});
  std::array<float, 3> back{};
  FromBfloat16(std::span(bytes).subspan(1), back);
  EXPECT_EQ(back, values);
}

TEST(Bfloat16, WhatRoundingTakesOffIsAddedToTheNextValue) {
  // A whole multiple of 2^-16 below 4: sums with a residual are exact in float32, so nothing else
  // rounds.
  constexpr size_t kCount = 1'000;
  constexpr int kSteps = 50;
  std::vector<double> sum(kCount);
  std::vector<double> sent(kCount);
  std::vector<float> residual(kCount);
  std::vector<float> values(kCount);
  std::vector<std::byte> narrow(2 * kCount);
  std::vector<float> wide(kCount);
  uint32_t state = 1;
  for (int step = 0; step < kSteps; ++step) {
    for (size_t i = 0; i < kCount; ++i) {
      state = state * 1'664'525 + 1'013'904'223;
      values[i] = static_cast<float>(static_cast<int32_t>(state) >> 14) * 0x1p-16F;
      sum[i] += values[i];
    }
    ToBfloat16(values, residual, narrow);
    FromBfloat16(narrow, wide);
    for (size_t i = 0; i < kCount; ++i) {
      sent[i] += wide[i];
      EXPECT_EQ(sent[i] + residual[i], sum[i]) << "step " << step;
    }
  }
  EXPECT_THAT(residual, ::testing::Contains(::testing::Ne(0.0F)));
}

TEST(Bfloat16, AValueTooSmallToChangeTheSumArrivesOnceItHasAddedUp) {
  // Half a last place of 1 and less is lost in plain rounding, for ever.
  std::array<float, 1> residual{};
  std::array<std::byte, 2> narrow{};
  std::array<float, 1> wide{};
  double sent = 0;
  for (int step = 0; step < 64; ++step) {
    ToBfloat16(std::array{1.0F + 0x1p-12F}, residual, narrow);
    FromBfloat16(narrow, wide);
    sent += wide[0];
  }
  EXPECT_EQ(sent + residual[0], 64 + 64 * 0x1p-12);
  EXPECT_GT(sent, 64);
}

TEST(Bfloat16, WhatIsNotFiniteArrivesAndIsForgotten) {
  const float nan = std::bit_cast<float>(0x7f800001U);  // its upper half alone were infinite
  const float largest = std::numeric_limits<float>::max();
  const std::array<float, 5> values = {nan, kInf, -kInf, largest, 1.0F};
  std::array<float, 5> residual{};
  std::array<std::byte, 10> narrow{};
  std::array<float, 5> wide{};
  ToBfloat16(values, residual, narrow);
  FromBfloat16(narrow, wide);
  EXPECT_TRUE(std::isnan(wide[0]));
  EXPECT_EQ(wide[1], kInf);
  EXPECT_EQ(wide[2], -kInf);
  EXPECT_EQ(wide[3], kInf) << "beyond the largest that bfloat16 holds";
  EXPECT_EQ(wide[4], 1.0F);
  EXPECT_THAT(residual, Each(0.0F));
}

TEST(Bfloat16, AResidualThatIsNotFiniteDoesNotLast) {
  std::array<float, 2> residual = {std::numeric_limits<float>::quiet_NaN(), kInf};
  std::array<std::byte, 4> narrow{};
  ToBfloat16(std::array{1.0F, 1.0F}, residual, narrow);
  EXPECT_THAT(residual, Each(0.0F));
}

}  // namespace
}  // namespace trainyard::engine
