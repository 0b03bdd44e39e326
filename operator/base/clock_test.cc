#include "operator/base/clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "operator/base/fake_clock.h"

namespace trainyard::control {
namespace {

TEST(Clock, MonotonicTimeOfTheSystemNeverGoesBack) {
  absl::Duration last = RealClock().Monotonic();
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration now = RealClock().Monotonic();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(Clock, AWaitEndsAtItsDeadline) {
  Mutex mutex;
  CondVar never;
  const absl::Duration deadline = RealClock().Monotonic() + absl::Milliseconds(20);
  MutexLock lock(mutex);
  while (RealClock().Monotonic() < deadline) RealClock().WaitUntil(never, mutex, deadline);
  RealClock().WaitUntil(never, mutex, deadline - absl::Hours(1));  // passed long ago: returns
}

TEST(SleepFor, EndsWhenTheTimeHasPassedOrStopIsAskedFor) {
  FakeClock clock;
  std::stop_source stop;
  std::atomic<int> slept = -1;
  std::thread first([&] { slept = SleepFor(clock, absl::Hours(1), {}) ? 1 : 0; });
  ASSERT_TRUE(clock.AwaitWaiters(1));
  EXPECT_EQ(slept, -1);
  clock.Advance(absl::Hours(1));
  first.join();
  EXPECT_EQ(slept, 1);

  std::thread second([&] { slept = SleepFor(clock, absl::Hours(1), stop.get_token()) ? 1 : 0; });
  ASSERT_TRUE(clock.AwaitWaiters(1));
  stop.request_stop();
  second.join();
  EXPECT_EQ(slept, 0);
  EXPECT_FALSE(SleepFor(clock, absl::Hours(1), stop.get_token())) << "stopped before it began";
}

}  // namespace
}  // namespace trainyard::control
