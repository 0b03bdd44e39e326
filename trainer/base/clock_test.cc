#include "trainer/base/clock.h"

#include <gtest/gtest.h>

#include "trainer/base/fake_clock.h"

namespace trainyard::engine {
namespace {

TEST(Clock, NowNeverGoesBack) {
  absl::Time last = RealClock().Now();
  for (int i = 0; i < 10000; ++i) {
    const absl::Time now = RealClock().Now();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(Clock, AJumpOfTheTimeOfDayDoesNotMoveNow) {
  FakeClock clock;
  const absl::Time now = clock.Now();
  const absl::Time wall = clock.Wall();
  clock.JumpWall(-absl::Hours(1));
  EXPECT_EQ(clock.Now(), now);
  EXPECT_EQ(clock.Wall(), wall - absl::Hours(1));
  clock.Advance(absl::Seconds(3));
  EXPECT_EQ(clock.Now(), now + absl::Seconds(3));
  EXPECT_EQ(clock.Wall(), wall - absl::Hours(1) + absl::Seconds(3));
}

}  // namespace
}  // namespace trainyard::engine
