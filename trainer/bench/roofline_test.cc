#include "trainer/bench/roofline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trainer/bench/memory_bandwidth.h"

namespace trainyard::engine {
namespace {

// A peak of 100 GFLOP/s and a memory of 10 GB/s: they meet at 10 FLOP a byte.
BenchResult Measured() {
  BenchResult result;
  result.peak_gflops = 100;
  result.memory_gigabytes_per_second = 10;
  result.layers = {
      {.name = "conv1", .op = "conv2d", .best_milliseconds = 2, .gflop = 0.1, .megabytes = 1},        // least 1 ms, by the peak
      {.name = "relu", .op = "activation", .best_milliseconds = 5, .gflop = 0.001, .megabytes = 40},  // least 4 ms, by the memory
      {.name = "conv2", .op = "conv2d", .best_milliseconds = 2, .gflop = 0.01, .megabytes = 10},      // least 1 ms, by the memory
      {.name = "optimizer", .op = "sgd", .best_milliseconds = 1, .megabytes = 5},
  };
  return result;
}

TEST(Roofline, AddsNodesOfAKindEachUnderItsOwnRoofTheLongestFirst) {
  const std::vector<RooflineRow> rows = RooflineOf(Measured());
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].op, "activation");
  EXPECT_DOUBLE_EQ(rows[0].ShareOfRoof(), 0.8);
  EXPECT_EQ(rows[1].op, "conv2d");
  EXPECT_EQ(rows[1].nodes, 2);
  EXPECT_DOUBLE_EQ(rows[1].milliseconds, 4);
  EXPECT_DOUBLE_EQ(rows[1].least_milliseconds, 2);
  EXPECT_DOUBLE_EQ(rows[1].FlopPerByte(), 10);
  EXPECT_DOUBLE_EQ(rows[1].Gflops(), 27.5);
  EXPECT_DOUBLE_EQ(rows[1].GigabytesPerSecond(), 2.75);
  EXPECT_DOUBLE_EQ(rows[2].ShareOfRoof(), 0.5);
}

TEST(Roofline, EndsWithTheWholeStep) {
  const std::vector<RooflineRow> rows = RooflineOf(Measured());
  EXPECT_EQ(rows.back().op, "step");
  EXPECT_EQ(rows.back().nodes, 4);
  EXPECT_DOUBLE_EQ(rows.back().milliseconds, 10);
  EXPECT_DOUBLE_EQ(rows.back().ShareOfRoof(), 0.65);
  EXPECT_THAT(RooflineText(rows), testing::HasSubstr("| step | 4 | 10.00 | 100 % | 111.0 | 56.0 | 2.0 | 11.1 | 5.6 | 65 % |\n"));
}

TEST(Roofline, IsInTheBenchWhereAskedFor) {
  const auto without = BenchStep({.model = "linear", .batch = 5, .threads = 1, .seconds = 0});
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_FALSE(nlohmann::json::parse(BenchJson(*without)).contains("roofline"));
  const auto result = BenchStep({.model = "linear", .batch = 5, .threads = 1, .seconds = 0, .roofline = true});
  ASSERT_TRUE(result.ok()) << result.status();
  const nlohmann::json json = nlohmann::json::parse(BenchJson(*result));
  EXPECT_GT(json["memoryGigabytesPerSecond"], 0.0);
  EXPECT_EQ(json["roofline"].back()["op"], "step");
  EXPECT_EQ(json["roofline"].back()["nodes"], json["layers"].size());
}

TEST(MemoryBandwidth, IsMeasuredByAnyThreads) {
  for (const int threads : {1, 3}) {
    const auto bytes = MeasureMemoryBandwidth(threads);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_GT(*bytes, 1e6);
  }
}

}  // namespace
}  // namespace trainyard::engine
