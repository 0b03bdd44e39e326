#include "trainer/bench/bench_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

std::string WhyRefused(const ServerBenchOptions& options) { return std::string(BenchServer(options).status().message()); }

TEST(BenchServerTest, OptionsOutsideTheirRangesAreNamed) {
  EXPECT_THAT(WhyRefused({.workers = 0}), HasSubstr("workers: found 0, expected 1 to 64"));
  EXPECT_THAT(WhyRefused({.workers = 65}), HasSubstr("found 65"));
  EXPECT_THAT(WhyRefused({.bytes = 6}), HasSubstr("bytes: found 6, expected a multiple of 4 from 4 to 1073741824"));
  EXPECT_THAT(WhyRefused({.rounds = -1}), HasSubstr("rounds: found -1"));
  EXPECT_THAT(WhyRefused({.optimizer = "newton"}), HasSubstr("newton"));
}

TEST(BenchServerTest, TextAndJsonTellTheServersTimeBesideTheArithmeticAlone) {
  const ServerBenchResult result{.options = {.workers = 3, .bytes = 8, .optimizer = "adam", .shared_memory = false},
                                 .rounds = 10,
                                 .median_microseconds = 5,
                                 .bytes_per_second = 2e9,
                                 .server_nanoseconds_per_byte = 0.75,
                                 .alone_nanoseconds_per_byte = 0.5};
  EXPECT_THAT(ServerBenchText(result), HasSubstr("one server, 3 workers, 8 bytes of parameters, adam, gRPC, 10 rounds"));
  const auto json = nlohmann::json::parse(ServerBenchJson(result));
  EXPECT_EQ(json["sharedMemory"], false);
  EXPECT_EQ(json["serverNanosecondsPerByte"], 0.75);
  EXPECT_EQ(json["ratio"], 1.5);
}

}  // namespace
}  // namespace trainyard::engine
