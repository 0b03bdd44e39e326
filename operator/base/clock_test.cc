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

TEST(FakeClock, AdvancesPastNoThreadThatHasNotRunSinceItsDeadline) {
  FakeClock clock;
  EXPECT_FALSE(clock.AdvanceWhileAwaited(absl::Seconds(1), 1)) << "nobody waits";
  Mutex mutex;
  CondVar condition;
  std::atomic<bool> woken = false;
  const absl::Duration deadline = clock.Monotonic() + absl::Seconds(3);
  std::thread waiter([&] {
    MutexLock lock(mutex);
    while (clock.Monotonic() < deadline) clock.WaitUntil(condition, mutex, deadline);
    woken = true;
  });
  int advances = 0;
  while (!woken) {
    if (clock.AdvanceWhileAwaited(absl::Seconds(2), 1)) ++advances;
    std::this_thread::yield();
  }
  waiter.join();
  EXPECT_EQ(advances, 2);
  EXPECT_EQ(clock.Monotonic(), deadline + absl::Seconds(1));
  EXPECT_FALSE(clock.AdvanceWhileAwaited(absl::Seconds(1), 1)) << "nobody waits any more";
}

}  // namespace
}  // namespace trainyard::control
