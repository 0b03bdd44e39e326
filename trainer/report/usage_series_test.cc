#include "trainer/report/usage_series.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

absl::Time AtSecond(double seconds) { return absl::UnixEpoch() + absl::Seconds(1'000'000) + absl::Seconds(seconds); }

TEST(UsageSeries, CountsCoresFromPointToPoint) {
  UsageSeries series(AtSecond(0), {.cpu_seconds = 10});
  EXPECT_FALSE(series.Due(AtSecond(0.2)));
  EXPECT_TRUE(series.Due(AtSecond(0.25)));
  series.Add(AtSecond(1), {.cpu_seconds = 12, .resident_bytes = 5});
  series.Add(AtSecond(3), {.cpu_seconds = 13, .resident_bytes = 7});
  ASSERT_EQ(series.points().size(), 2);
  EXPECT_EQ(series.points()[0], (UsagePoint{.seconds = 1, .cpu_cores = 2, .resident_bytes = 5}));
  EXPECT_EQ(series.points()[1], (UsagePoint{.seconds = 3, .cpu_cores = 0.5, .resident_bytes = 7}));
}

TEST(UsageSeries, ALongRunKeepsItsWholeHistoryInABoundedNumberOfPoints) {
  UsageSeries series(AtSecond(0), {});
  double cpu = 0;
  int taken = 0;
  for (int tick = 1; tick <= 40'000; ++tick) {
    const absl::Time now = AtSecond(0.25 * tick);
    cpu += 0.25 * (tick <= 20'000 ? 1 : 3);
    if (!series.Due(now)) continue;
    ++taken;
    series.Add(now, {.cpu_seconds = cpu, .resident_bytes = tick == 100 ? 999 : 1});
    ASSERT_LE(series.points().size(), UsageSeries::kMostPoints);
  }
  EXPECT_LT(taken, 2'000);
  EXPECT_GE(series.points().size(), UsageSeries::kMostPoints / 2);
  EXPECT_NEAR(series.points().front().cpu_cores, 1, 1e-9);
  EXPECT_NEAR(series.points().back().cpu_cores, 3, 1e-9);
  EXPECT_NEAR(series.points().back().seconds, 10'000, 200);
  double used = 0;
  double begin = 0;
  for (const UsagePoint& point : series.points()) {
    used += point.cpu_cores * (point.seconds - begin);
    begin = point.seconds;
  }
  EXPECT_NEAR(used, 20'000, 600);
  EXPECT_EQ(series.points().front().resident_bytes, 999);  // peaks are kept
}

}  // namespace
}  // namespace trainyard::engine
