#include "trainer/bench/bench_predict.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

TEST(BenchPredict, RefusesABatchOutsideItsRange) {
  for (const int64_t batch : {int64_t{0}, int64_t{1025}}) {
    const auto result = BenchPredict({.checkpoint = "nowhere", .batch = batch});
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(result.status().message().find("--batch"), absl::string_view::npos) << result.status();
  }
}

TEST(BenchPredict, NamesACheckpointThatIsMissing) {
  const auto result = BenchPredict({.checkpoint = "nowhere"});
  EXPECT_NE(result.status().message().find("nowhere"), absl::string_view::npos) << result.status();
}

TEST(BenchPredict, TellsWhatItMeasuredAsJsonAndAsALine) {
  const PredictBenchResult result{.options = {.checkpoint = "out/digits", .batch = 4},
                                  .isa = "avx2",
                                  .calls = 30,
                                  .median_microseconds = 200,
                                  .p99_microseconds = 300,
                                  .best_microseconds = 150,
                                  .max_rss_bytes = 5 << 20};
  EXPECT_NE(PredictBenchJson(result).find("\"p99Microseconds\": 300.0"), std::string::npos) << PredictBenchJson(result);
  EXPECT_EQ(PredictBenchText(result),
            "out/digits batch 4 on 1 thread (avx2): 200.0 us a call (p99 300.0, best 150.0), 20000 examples/s, 5 MiB at most\n");
}

}  // namespace
}  // namespace trainyard::engine
