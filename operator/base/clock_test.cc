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

TEST(Timestamps, AreWrittenAsKubernetesWritesThemAndReadBack) {
  const absl::Time time = absl::FromUnixMicros(1795253597443604);
  EXPECT_EQ(FormatTimestamp(time), "2026-11-21T09:33:17Z");
  EXPECT_EQ(FormatMicroTimestamp(time), "2026-11-21T09:33:17.443604Z");
  EXPECT_EQ(ParseTimestamp(FormatMicroTimestamp(time)), time);
  EXPECT_EQ(ParseTimestamp("2026-11-21T10:33:17+01:00"), absl::FromUnixSeconds(1795253597));
  for (const char* nonsense : {"", "yesterday", "2026-13-40T00:00:00Z", "2026-11-21"})
    EXPECT_EQ(ParseTimestamp(nonsense), absl::InfinitePast());
}

}  // namespace
}  // namespace trainyard::control
