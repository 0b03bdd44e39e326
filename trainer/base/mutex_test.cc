#include "trainer/base/mutex.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "trainer/base/clock.h"
#include "trainer/base/notification.h"

namespace trainyard::engine {
namespace {

constexpr absl::Duration kSoon = absl::Seconds(60);

// A value that threads wait for.
struct Cell {
  Mutex mutex;
  int value ABSL_GUARDED_BY(mutex) = 0;

  void Set(int to) {
    MutexLock lock(&mutex);
    value = to;
  }
  bool Await(int wanted, absl::Duration at_most) {
    MutexLock lock(&mutex);
    const auto is_there = [this, wanted]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return value >= wanted; };
    return mutex.AwaitWithTimeout(absl::Condition(&is_there), at_most);
  }
};

TEST(Mutex, AConditionThatHoldsNeedsNoWait) {
  Cell cell;
  EXPECT_TRUE(cell.Await(0, -absl::InfiniteDuration()));
}

TEST(Mutex, AWaitEndsAtItsDeadline) {
  Cell cell;
  const absl::Time start = RealClock().Now();
  EXPECT_FALSE(cell.Await(1, absl::Milliseconds(20)));
  EXPECT_GE(RealClock().Now(), start + absl::Milliseconds(20));
  EXPECT_FALSE(cell.Await(1, -absl::Hours(1)));
}

TEST(Mutex, EachWaiterWakesWhenItsOwnConditionHolds) {
  Cell cell;
  std::array<bool, 8> woken{};
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < woken.size(); ++i) {
      threads.emplace_back([&, i] { woken[i] = cell.Await(static_cast<int>(i) + 1, kSoon); });
    }
    for (size_t i = 0; i < woken.size(); ++i) cell.Set(static_cast<int>(i) + 1);
  }
  for (const bool is_woken : woken) EXPECT_TRUE(is_woken);
}

TEST(Mutex, AThreadThatStartsToWaitWakesThoseThatItMadeReady) {
  Cell cell;
  std::jthread other([&] {
    if (cell.Await(1, kSoon)) cell.Set(2);
  });
  MutexLock lock(&cell.mutex);
  cell.value = 1;
  const auto answered = [&cell]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(cell.mutex) { return cell.value == 2; };
  EXPECT_TRUE(cell.mutex.AwaitWithTimeout(absl::Condition(&answered), kSoon));
}

TEST(Notification, IsSeenByThoseThatWaitAndByThoseThatAsk) {
  Notification happened;
  EXPECT_FALSE(happened.HasBeenNotified());
  EXPECT_FALSE(happened.WaitForNotificationWithTimeout(absl::ZeroDuration()));
  std::jthread other([&] { happened.Notify(); });
  EXPECT_TRUE(happened.WaitForNotificationWithTimeout(kSoon));
  EXPECT_TRUE(happened.HasBeenNotified());
  happened.Notify();
}

}  // namespace
}  // namespace trainyard::engine
