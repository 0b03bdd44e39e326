#include "operator/plan/status_timing.h"

#include <gtest/gtest.h>

namespace trainyard::control {
namespace {

using absl::Seconds;

TrainingJobStatus Running(int step) {
  TrainingJobStatus status;
  status.phase = JobPhase::kRunning;
  status.progress = Progress{.step = step};
  return status;
}

TEST(StatusTiming, AFirstStatusFollowsItsChildrenUnlessThePlanChangesAny) {
  TrainingJobStatus first;
  first.phase = JobPhase::kPending;
  EXPECT_EQ(TimingOf({}, first, /*only_creates=*/true), StatusTiming::kAfterChildren);
  EXPECT_EQ(TimingOf({}, first, /*only_creates=*/false), StatusTiming::kAtOnce);
  first.failure = Failure{};
  EXPECT_EQ(TimingOf({}, first, /*only_creates=*/true), StatusTiming::kAtOnce);
}

TEST(StatusTiming, ProgressSettlesAndAPhaseIsWrittenAtOnce) {
  EXPECT_EQ(TimingOf(Running(1), Running(2), true), StatusTiming::kSettled);
  TrainingJobStatus succeeded = Running(2);
  succeeded.phase = JobPhase::kSucceeded;
  EXPECT_EQ(TimingOf(Running(1), succeeded, true), StatusTiming::kAtOnce);
}

TEST(StatusTiming, AChangeWaitsUntilItHasSettledButNotForever) {
  const StatusWriteOptions options{.settle = Seconds(2), .at_most = Seconds(10)};
  const auto delay = [&](int age, int unchanged) {
    return StatusDelay({.timing = StatusTiming::kSettled, .age = Seconds(age), .unchanged = Seconds(unchanged)}, options);
  };
  EXPECT_EQ(delay(0, 0), Seconds(2));
  EXPECT_EQ(delay(5, 1), Seconds(1));
  EXPECT_EQ(delay(9, 0), Seconds(1));
  EXPECT_EQ(delay(5, 2), Seconds(0));
  EXPECT_EQ(delay(60, 0), Seconds(0));
}

TEST(StatusTiming, AFirstStatusWaitsForOtherNewJobsOnly) {
  const StatusWriteOptions options{.settle = Seconds(2), .at_most = Seconds(10)};
  UnwrittenStatus first{.timing = StatusTiming::kAfterChildren, .age = Seconds(4), .unchanged = Seconds(4)};
  EXPECT_EQ(StatusDelay(first, options), Seconds(0));
  first.others_are_new = true;
  EXPECT_EQ(StatusDelay(first, options), Seconds(6));
  first.age = Seconds(11);
  EXPECT_EQ(StatusDelay(first, options), Seconds(0));
  first.timing = StatusTiming::kAtOnce;
  first.age = Seconds(0);
  EXPECT_EQ(StatusDelay(first, options), Seconds(0));
}

}  // namespace
}  // namespace trainyard::control
