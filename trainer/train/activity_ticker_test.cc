#include "trainer/train/activity_ticker.h"

#include <gtest/gtest.h>

#include <atomic>

#include "trainer/base/notification.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(30);

TEST(ActivityTicker, TellsAgainAndAgainWhileThereIsWork) {
  Notification told;
  std::atomic<int> times = 0;
  ActivityTicker ticker(
      [&] {
        if (++times == 3) told.Notify();
      },
      absl::Milliseconds(1));
  const ActivityTicker::Work outer(ticker);
  {
    const ActivityTicker::Work inner(ticker);
  }  // the end of one work is not the end of the other
  EXPECT_TRUE(told.WaitForNotificationWithTimeout(kDeadline));
}

TEST(ActivityTicker, SaysNothingWithoutWork) {
  std::atomic<int> times = 0;
  {
    ActivityTicker ticker([&] { ++times; }, absl::Nanoseconds(1));
    std::atomic<int> other_times = 0;
    Notification other_told;
    // The other one's many periods are as many of this one's.
    ActivityTicker other(
        [&] {
          if (++other_times == 100) other_told.Notify();
        },
        absl::Microseconds(10));
    const ActivityTicker::Work work(other);
    EXPECT_TRUE(other_told.WaitForNotificationWithTimeout(kDeadline));
  }
  EXPECT_EQ(times, 0);
}

}  // namespace
}  // namespace trainyard::engine
