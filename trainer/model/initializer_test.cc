#include "trainer/model/initializer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "trainer/model/build_graph.h"
#include "trainer/model/model_json.h"

namespace trainyard::engine {
namespace {

std::vector<float> Values(Initializer initializer, uint64_t seed, std::string_view name, const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  Initialize(initializer, seed, name, shape, values);
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

TEST(InitializerTest, GlorotUniformFillsItsRangeEvenly) {
  const double limit = std::sqrt(6.0 / (300 + 200));
  const Moments moments = MomentsOf(Values(Initializer::kGlorotUniform, 1, "w", {300, 200}));
  EXPECT_LE(moments.largest, limit);
  EXPECT_GT(moments.largest, 0.999 * limit);
  EXPECT_NEAR(moments.mean, 0, 0.01 * limit);
  EXPECT_NEAR(moments.deviation, limit / std::sqrt(3.0), 0.01 * limit);
}

TEST(InitializerTest, FansOfAConvolutionCountItsWindow) {
  const double limit = std::sqrt(6.0 / (5 * 5 * 20 + 5 * 5 * 50));
  const Moments moments = MomentsOf(Values(Initializer::kGlorotUniform, 1, "w", {5, 5, 20, 50}));
  EXPECT_LE(moments.largest, limit);
  EXPECT_GT(moments.largest, 0.99 * limit);
}

TEST(InitializerTest, HeNormalHasTheDeviationOfItsFanInAndNoTails) {
  const double deviation = std::sqrt(2.0 / 300);
  const Moments moments = MomentsOf(Values(Initializer::kHeNormal, 1, "w", {300, 200}));
  EXPECT_NEAR(moments.deviation, deviation, 0.01 * deviation);
  EXPECT_NEAR(moments.mean, 0, 0.02 * deviation);
  EXPECT_LE(moments.largest, 2.0 / 0.879625 * deviation * 1.0001);
}

TEST(InitializerTest, OtherKindsHaveTheirDeviations) {
  EXPECT_NEAR(MomentsOf(Values(Initializer::kHeUniform, 1, "w", {300, 200})).deviation, std::sqrt(2.0 / 300), 0.001);
  EXPECT_NEAR(MomentsOf(Values(Initializer::kGlorotNormal, 1, "w", {300, 200})).deviation, std::sqrt(2.0 / 500), 0.001);
}

TEST(InitializerTest, ValuesDependOnSeedAndNameAlone) {
  const auto values = Values(Initializer::kGlorotUniform, 1, "a", {4, 3});
  EXPECT_EQ(values, Values(Initializer::kGlorotUniform, 1, "a", {4, 3}));
  EXPECT_NE(values, Values(Initializer::kGlorotUniform, 2, "a", {4, 3}));
  EXPECT_NE(values, Values(Initializer::kGlorotUniform, 1, "b", {4, 3}));
}

TEST(InitializerTest, AModelStartsWithItsLayersInitializersAndBiasesAtZero) {
  FieldErrors errors;
  const ModelSpec spec = ParseModelSpec(nlohmann::json::parse(R"({"input": {"shape": [6]}, "loss": "meanSquaredError", "layers": [
      {"name": "a", "dense": {"units": 5, "kernelInitializer": "ones"}}, {"name": "b", "dense": {"units": 4, "biasInitializer": "ones"}}]})"),
                                        "model", errors);
  ASSERT_TRUE(errors.empty()) << errors.ToStatus("test");
  ParameterSet parameters(*ParameterSpecsOf(spec));
  InitializeParameters(spec, 7, parameters);
  EXPECT_THAT(parameters.values(parameters.Find("a/kernel")), ::testing::Each(1.0F));
  EXPECT_THAT(parameters.values(parameters.Find("a/bias")), ::testing::Each(0.0F));
  EXPECT_THAT(parameters.values(parameters.Find("b/bias")), ::testing::Each(1.0F));
  const auto kernel = parameters.values(parameters.Find("b/kernel"));
  EXPECT_EQ(std::vector<float>(kernel.begin(), kernel.end()), Values(Initializer::kGlorotUniform, 7, "b/kernel", {5, 4}));
}

}  // namespace
}  // namespace trainyard::engine
