#include "trainer/model/layers/start_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace trainyard::engine {
namespace {

std::vector<float> Values(Initializer initializer, uint64_t seed, std::string_view name, const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  Initialize({initializer}, seed, name, shape, values);
  return values;
}

struct Moments {
  double mean = 0;
  double deviation = 0;
  double largest = 0;
};
Moments MomentsOf(const std::vector<float>& values) {
  Moments moments;
  for (const float value : values) {
    moments.mean += value;
    moments.largest = std::max(moments.largest, std::abs(static_cast<double>(value)));
  }
  moments.mean /= static_cast<double>(values.size());
  for (const float value : values) moments.deviation += (value - moments.mean) * (value - moments.mean);
  moments.deviation = std::sqrt(moments.deviation / static_cast<double>(values.size()));
  return moments;
}

TEST(StartValueTest, GlorotUniformFillsItsRangeEvenly) {
  const double limit = std::sqrt(6.0 / (300 + 200));
  const Moments moments = MomentsOf(Values(Initializer::kGlorotUniform, 1, "w", {300, 200}));
  EXPECT_LE(moments.largest, limit);
  EXPECT_GT(moments.largest, 0.999 * limit);
  EXPECT_NEAR(moments.mean, 0, 0.01 * limit);
  EXPECT_NEAR(moments.deviation, limit / std::sqrt(3.0), 0.01 * limit);
}

TEST(StartValueTest, FansOfAConvolutionCountItsWindow) {
  const double limit = std::sqrt(6.0 / (5 * 5 * 20 + 5 * 5 * 50));
  const Moments moments = MomentsOf(Values(Initializer::kGlorotUniform, 1, "w", {5, 5, 20, 50}));
  EXPECT_LE(moments.largest, limit);
  EXPECT_GT(moments.largest, 0.99 * limit);
}

TEST(StartValueTest, HeNormalHasTheDeviationOfItsFanInAndNoTails) {
  const double deviation = std::sqrt(2.0 / 300);
  const Moments moments = MomentsOf(Values(Initializer::kHeNormal, 1, "w", {300, 200}));
  EXPECT_NEAR(moments.deviation, deviation, 0.01 * deviation);
  EXPECT_NEAR(moments.mean, 0, 0.02 * deviation);
  EXPECT_LE(moments.largest, 2.0 / 0.879625 * deviation * 1.0001);
}

TEST(StartValueTest, OtherKindsHaveTheirDeviations) {
  EXPECT_NEAR(MomentsOf(Values(Initializer::kHeUniform, 1, "w", {300, 200})).deviation, std::sqrt(2.0 / 300), 0.001);
  EXPECT_NEAR(MomentsOf(Values(Initializer::kGlorotNormal, 1, "w", {300, 200})).deviation, std::sqrt(2.0 / 500), 0.001);
}

TEST(StartValueTest, ValuesDependOnSeedAndNameAlone) {
  const auto values = Values(Initializer::kGlorotUniform, 1, "a", {4, 3});
  EXPECT_EQ(values, Values(Initializer::kGlorotUniform, 1, "a", {4, 3}));
  EXPECT_NE(values, Values(Initializer::kGlorotUniform, 2, "a", {4, 3}));
  EXPECT_NE(values, Values(Initializer::kGlorotUniform, 1, "b", {4, 3}));
}

TEST(StartValueTest, SomeElementsMayStartWithOne) {
  std::vector<float> values(6, 7.0F);
  Initialize({.initializer = Initializer::kZeros, .ones_begin = 2, .ones_end = 4}, 1, "bias", {6}, values);
  EXPECT_THAT(values, ::testing::ElementsAre(0, 0, 1, 1, 0, 0));
}

}  // namespace
}  // namespace trainyard::engine
