#include "trainer/transport/doorbell.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "trainer/base/clock.h"
#include "trainer/transport/test_deadline.h"

namespace trainyard::engine {
namespace {

TEST(DoorbellTest, ASleeperWithSomethingToDoDoesNotSleep) {
  Doorbell bell{};
  const absl::Time before = RealClock().Now();
  bell.Sleep([] { return false; }, absl::Hours(1));
  EXPECT_LT(RealClock().Now() - before, kSoon);
}

TEST(DoorbellTest, ASleepEndsByItself) {
  Doorbell bell{};
  bell.Sleep([] { return true; }, absl::Milliseconds(1));
}

TEST(DoorbellTest, ARestEndsByItselfAndByAWakeButNotByARing) {
  Doorbell bell{};
  bell.Rest([] { return true; }, absl::Milliseconds(1));
  const absl::Time before = RealClock().Now();
  bell.Rest([] { return false; }, absl::Hours(1));
  bell.Rest(
      [&] {
        bell.Ring();  // nobody has said that he sleeps
        return true;
      },
      absl::Milliseconds(1));
  bell.Rest(
      [&] {
        bell.Wake();
        return true;
      },
      absl::Hours(1));
  EXPECT_LT(RealClock().Now() - before, kSoon);
}

TEST(DoorbellTest, EveryRingAfterItsCauseIsHeard) {
  Doorbell bell{};
  std::atomic<int> made = 0;
  std::atomic<int> taken = 0;
  constexpr int kCount = 3'000;
  std::thread maker([&] {
    for (int i = 1; i <= kCount; ++i) {
      while (taken < i - 1) std::this_thread::yield();
      made = i;
      bell.Ring();
    }
  });
  const absl::Time deadline = RealClock().Now() + kSoon;
  bool in_time = true;
  for (int i = 1; i <= kCount && in_time; ++i) {
    while (made < i && in_time) {
      bell.Sleep([&] { return made < i; }, kSoon);
      in_time = RealClock().Now() < deadline;
    }
    taken = i;
  }
  taken = kCount;
  maker.join();
  EXPECT_TRUE(in_time) << "a ring was lost";
}

}  // namespace
}  // namespace trainyard::engine
