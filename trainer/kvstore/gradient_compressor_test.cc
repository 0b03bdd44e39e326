#include "trainer/kvstore/gradient_compressor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "trainer/tensor/bfloat16.h"

namespace trainyard::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// A table of four rows of two, a bias, and moving statistics.
std::vector<ParameterSpec> SmallSpecs() {
  return {{.name = "table", .shape = Shape({4, 2})},
          {.name = "bias", .shape = Shape({3})},
          {.name = "moving", .shape = Shape({3}), .trainable = false}};
}

std::vector<float> WideOf(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / 2);
  FromBfloat16(bytes, values);
  return values;
}

constexpr float kLastPlace = 0x1p-7F;  // of bfloat16 from 1 to 2
constexpr float kQuarter = 1 + kLastPlace / 4;
constexpr float kThreeQuarters = 1 + 3 * kLastPlace / 4;
constexpr float kLessThanHalf = 1 + 3 * kLastPlace / 8;  // rounds to 1, the second one up

TEST(GradientCompressor, WhatRoundingTakesOffComesWithTheNextStep) {
  GradientCompressor compressor(SmallSpecs(), Compression::kBfloat16);
  const std::vector<float> gradient = {kQuarter, kThreeQuarters, -kQuarter};
  EXPECT_THAT(WideOf(compressor.Compress(1, std::span(gradient))), ElementsAre(1, 1 + kLastPlace, -1));
  EXPECT_THAT(WideOf(compressor.Compress(1, std::span(gradient))), ElementsAre(1, 1, -1)) << "of the tie the even one";
  EXPECT_THAT(WideOf(compressor.Compress(1, std::span(gradient))), ElementsAre(1 + kLastPlace, 1 + kLastPlace, -1 - kLastPlace));
  EXPECT_THAT(WideOf(compressor.Compress(1, std::span(gradient))), ElementsAre(1, 1 + kLastPlace, -1)) << "four are sent whole";
}

TEST(GradientCompressor, OnlyTheRowsOfAStepTakePart) {
  GradientCompressor compressor(SmallSpecs(), Compression::kBfloat16);
  std::vector<float> gradient(8);
  TouchedRows rows;
  rows.Reserve(2);
  const auto compress = [&](std::vector<int32_t> ids) {
    std::ranges::fill(gradient, 0.0F);
    for (const int32_t row : ids) gradient[2 * row] = gradient[2 * row + 1] = kLessThanHalf;
    rows.Touch(ids);
    return WideOf(compressor.Compress(0, GradientView(std::span<const float>(gradient), rows)));
  };
  EXPECT_THAT(compress({1, 3}), ElementsAre(0, 0, 1, 1, 0, 0, 1, 1));
  EXPECT_THAT(compress({0}), ElementsAre(1, 1, 0, 0, 0, 0, 0, 0)) << "the others keep their residual and send nothing of it";
  const float more = 1 + kLastPlace;
  EXPECT_THAT(compress({1, 2}), ElementsAre(0, 0, more, more, 1, 1, 0, 0)) << "until they are touched";
  std::ranges::fill(gradient, 1.0F);
  EXPECT_THAT(WideOf(compressor.Compress(0, std::span<const float>(gradient))), Each(1.0F)) << "of a whole gradient all take part";
  EXPECT_THAT(compress({2}), ElementsAre(0, 0, 0, 0, more, more, 0, 0));
}

TEST(GradientCompressor, AStepWithoutANumberDoesNotSpoilTheNext) {
  GradientCompressor compressor(SmallSpecs(), Compression::kBfloat16);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> first =
      WideOf(compressor.Compress(1, std::span<const float>(std::vector<float>{std::nanf(""), kInf, kQuarter})));
  EXPECT_TRUE(std::isnan(first[0]));
  EXPECT_EQ(first[1], kInf);
  EXPECT_THAT(WideOf(compressor.Compress(1, std::span<const float>(std::vector<float>{1, 1, 1}))), Each(1.0F));
}

TEST(GradientCompressor, AfterForgetItIsAsAtFirst) {
  GradientCompressor compressor(SmallSpecs(), Compression::kBfloat16);
  const std::vector<float> gradient(3, kLessThanHalf);
  EXPECT_THAT(WideOf(compressor.Compress(1, std::span(gradient))), Each(1.0F));
  compressor.Forget();
  EXPECT_THAT(WideOf(compressor.Compress(1, std::span(gradient))), Each(1.0F));
  EXPECT_THAT(WideOf(compressor.Compress(1, std::span(gradient))), Each(1 + kLastPlace));
}

TEST(GradientCompressor, StatisticsAndJobsWithoutItAreLeftAlone) {
  EXPECT_FALSE(GradientCompressor(SmallSpecs(), Compression::kBfloat16).Compresses(2));
  EXPECT_FALSE(GradientCompressor(SmallSpecs(), Compression::kNone).Compresses(0));
}

}  // namespace
}  // namespace trainyard::engine
