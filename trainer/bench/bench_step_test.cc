#include "trainer/bench/bench_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace trainyard::engine {
namespace {

TEST(BenchStep, ReportsEveryLayerAndTheShareOfThePeak) {
  const auto result = BenchStep({.model = "lenet5", .batch = 5, .threads = 1, .seconds = 0});
  ASSERT_TRUE(result.ok()) << result.status();
  const nlohmann::json json = nlohmann::json::parse(BenchJson(*result));
  EXPECT_GT(json["itemsPerSecond"], 0.0);
  EXPECT_EQ(json["unit"], "images");
  EXPECT_GT(json["peakGflops"], 0.0);
  // forward, weight and data gradients of LeNet-5 take 13.2 MFLOP an image
  EXPECT_NEAR(json["gflopPerStep"].get<double>() / 5, 0.0132, 0.0005);
  EXPECT_EQ(json["layers"].back()["name"], "optimizer");
  EXPECT_GE(json["layers"].size(), 10u);
}

TEST(BenchStep, SaysWhichPrecisionRanByWhichKernels) {
  const auto result =
      BenchStep({.model = "lenet5", .batch = 5, .threads = 1, .isa = "auto", .precision = Precision::kBfloat16, .seconds = 0});
  ASSERT_TRUE(result.ok()) << result.status();
  const nlohmann::json json = nlohmann::json::parse(BenchJson(*result));
  EXPECT_EQ(json["precision"], "bfloat16");
  EXPECT_FALSE(json["isa"].get<std::string>().empty());
  EXPECT_GT(json["peakGflops"], 0.0);
}

TEST(BenchStep, ValuesOfSixteenBitsCountTwoBytes) {
  std::map<Precision, double> bytes;
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16}) {
    const auto result = BenchStep({.model = "lenet5", .batch = 5, .threads = 1, .precision = precision, .seconds = 0});
    ASSERT_TRUE(result.ok()) << result.status();
    const auto conv2 = std::ranges::find(result->layers, "conv2", &BenchLayer::name);
    ASSERT_NE(conv2, result->layers.end());
    bytes[precision] = 1e6 * conv2->megabytes;
  }
  constexpr double kInputs = 5 * 12 * 12 * 20, kPooled = 5 * 4 * 4 * 50;
  EXPECT_NEAR(bytes[Precision::kFloat32] - bytes[Precision::kBfloat16], 2 * (kInputs + kPooled), 1.0);
}

TEST(BenchStep, NamesAnUnknownModel) {
  const auto result = BenchStep({.model = "lenet6", .seconds = 0});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(result.status().message().find("lenet6"), absl::string_view::npos) << result.status();
}

TEST(BenchStep, RefusesAnEmptyBatch) { EXPECT_EQ(BenchStep({.batch = 0}).status().code(), absl::StatusCode::kInvalidArgument); }

}  // namespace
}  // namespace trainyard::engine
