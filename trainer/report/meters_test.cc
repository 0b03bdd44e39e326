#include "trainer/report/meters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trainyard::engine {
namespace {

absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(Meters, BeforeTheFirstStepThereIsNoSpeedNoLossAndNoEta) {
  Meters meters;
  meters.Start(At(100));
  EXPECT_EQ(meters.BatchesPerSecond(), 0);
  EXPECT_EQ(meters.MeanExamplesPerSecond(), 0);
  EXPECT_FALSE(meters.SmoothedLoss());
  EXPECT_FALSE(meters.Eta(10));
}

TEST(Meters, SpeedIsThatOfTheWindowAndTheMeanThatOfTheRun) {
  Meters meters({.window = absl::Seconds(10)});
  meters.Start(At(0));
  for (int i = 1; i <= 20; ++i) meters.AddStep(At(i), 100, 1);              // 1 step/s
  for (int i = 1; i <= 40; ++i) meters.AddStep(At(20 + i * 0.25), 100, 1);  // 4 steps/s for 10 s
  EXPECT_NEAR(meters.BatchesPerSecond(), 4, 1e-9);
  EXPECT_NEAR(meters.ExamplesPerSecond(), 400, 1e-9);
  EXPECT_NEAR(meters.MeanBatchesPerSecond(), 2, 1e-9);
  EXPECT_NEAR(meters.MeanExamplesPerSecond(), 200, 1e-9);
  EXPECT_EQ(meters.elapsed(), absl::Seconds(30));
  EXPECT_EQ(meters.steps(), 60);
  EXPECT_EQ(meters.examples(), 6000);
}

TEST(Meters, AStepLongerThanTheWindowStillHasASpeed) {
  Meters meters({.window = absl::Seconds(1)});
  meters.Start(At(0));
  meters.AddStep(At(5), 10, 1);
  meters.AddStep(At(10), 10, 1);
  EXPECT_NEAR(meters.BatchesPerSecond(), 0.2, 1e-9);
}

TEST(Meters, EtaFollowsTheWindowsSpeed) {
  Meters meters;
  meters.Start(At(0));
  meters.AddStep(At(2), 1, 1);
  meters.AddStep(At(4), 1, 1);
  EXPECT_EQ(*meters.Eta(30), absl::Seconds(60));
  EXPECT_EQ(*meters.Eta(-1), absl::ZeroDuration());
}

TEST(Meters, LossIsSmoothedWithoutLeaningToZeroAtTheStart) {
  Meters meters({.loss_smoothing = 0.9});
  meters.Start(At(0));
  meters.AddStep(At(1), 1, 2.0);
  EXPECT_NEAR(*meters.SmoothedLoss(), 2.0, 1e-12);
  meters.AddStep(At(2), 1, 1.0);
  EXPECT_NEAR(*meters.SmoothedLoss(), (0.9 * 2.0 + 1.0) / 1.9, 1e-12);
}

TEST(Meters, ALossThatIsNotFiniteIsShownAndForgottenAgain) {
  Meters meters;
  meters.Start(At(0));
  meters.AddStep(At(1), 1, 2.0);
  meters.AddStep(At(2), 1, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(std::isnan(*meters.SmoothedLoss()));
  meters.AddStep(At(3), 1, 2.0);
  EXPECT_NEAR(*meters.SmoothedLoss(), 2.0, 1e-12);
}

TEST(Meters, TimesAreSplitByPhase) {
  Meters meters;
  meters.AddTime(Phase::kInput, absl::Seconds(1));
  meters.AddTime(Phase::kCompute, absl::Seconds(2));
  meters.AddTime(Phase::kCompute, absl::Seconds(3));
  meters.AddTime(Phase::kCommunication, absl::Seconds(4));
  EXPECT_EQ(meters.time_split().input, absl::Seconds(1));
  EXPECT_EQ(meters.time_split().compute, absl::Seconds(5));
  EXPECT_EQ(meters.time_split().communication, absl::Seconds(4));
}

}  // namespace
}  // namespace trainyard::engine
