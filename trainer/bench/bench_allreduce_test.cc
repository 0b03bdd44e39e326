#include "trainer/bench/bench_allreduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

std::string Why(const AllReduceBenchOptions& options) { return std::string(BenchAllReduce(options).status().message()); }

TEST(BenchAllReduceTest, OptionsOutsideTheirRangesAreNamed) {
  EXPECT_THAT(Why({.ranks = 0}), HasSubstr("ranks: found 0, expected 1 to 64"));
  EXPECT_THAT(Why({.ranks = 65}), HasSubstr("found 65"));
  EXPECT_THAT(Why({.bytes = {4, 3}}), HasSubstr("bytes: found 3, expected a multiple of 4 from 4 to 1073741824"));
  EXPECT_THAT(Why({.bytes = {0}}), HasSubstr("found 0"));
  EXPECT_THAT(Why({.rounds = -1}), HasSubstr("rounds: found -1"));
}

TEST(BenchAllReduceTest, TextAndJsonTellEverySize) {
  const AllReduceBenchResult result{
      .options = {.ranks = 3, .bytes = {8}, .shared_memory = false},
      .rows = {{.bytes = 8, .rounds = 10, .median_microseconds = 5, .best_microseconds = 4, .cpu_microseconds = 3}}};
  EXPECT_THAT(AllReduceBenchText(result), HasSubstr("all-reduce of 3 ranks, auto, gRPC"));
  const auto json = nlohmann::json::parse(AllReduceBenchJson(result));
  EXPECT_EQ(json["sharedMemory"], false);
  EXPECT_EQ(json["rows"][0]["medianMicroseconds"], 5.0);
}

}  // namespace
}  // namespace trainyard::engine
