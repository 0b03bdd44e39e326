#include "operator/trainingjob/job_clock.h"

#include <gtest/gtest.h>

#include "operator/base/fake_clock.h"

namespace trainyard::control {
namespace {

class JobClockTest : public testing::Test {
 protected:
  FakeClock clock_;
  JobClock job_clock_{clock_};
};

TEST_F(JobClockTest, IsTheOwnClockWhereNothingIsNewer) {
  EXPECT_EQ(job_clock_.Now("a", absl::InfinitePast()), clock_.Now());
  EXPECT_EQ(job_clock_.Now("a", clock_.Now() - absl::Seconds(3)), clock_.Now());
}

TEST_F(JobClockTest, AWaitThatBeganOnAClockAheadOfTheOwnTakesNoLongerThanItself) {
  const absl::Time began = clock_.Now() + absl::Seconds(500);
  EXPECT_EQ(job_clock_.Now("a", began), began);
  clock_.Advance(absl::Seconds(20));
  EXPECT_EQ(job_clock_.Now("a", began), began + absl::Seconds(20));
  EXPECT_EQ(job_clock_.Now("b", absl::InfinitePast()), clock_.Now()) << "another job's time is its own";
}

TEST_F(JobClockTest, AClockThatJumpsBackDoesNotStretchAWaitAndOneThatCatchesUpIsFollowedAgain) {
  const absl::Time began = clock_.Now();
  clock_.Advance(absl::Seconds(5));
  clock_.JumpWallClock(-absl::Seconds(500));
  EXPECT_EQ(job_clock_.Now("a", began), began);
  clock_.Advance(absl::Seconds(30));
  EXPECT_EQ(job_clock_.Now("a", began), began + absl::Seconds(30));
  clock_.JumpWallClock(absl::Seconds(600));
  EXPECT_EQ(job_clock_.Now("a", began), clock_.Now());
}

}  // namespace
}  // namespace trainyard::control
