#include "operator/controller/workqueue.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "operator/base/fake_clock.h"

namespace trainyard::control {
namespace {

TEST(WorkQueue, HandsOutKeysInTheOrderInWhichTheyWereAdded) {
  FakeClock clock;
  WorkQueue queue(clock);
  for (const char* key : {"c", "a", "b"}) queue.Add(key);
  for (const char* key : {"c", "a", "b"}) EXPECT_EQ(queue.Get()->key, key);
}

TEST(WorkQueue, HandsOutAKeyOnceHoweverOftenItWasAddedBefore) {
  FakeClock clock;
  WorkQueue queue(clock);
  for (int i = 0; i < 5; ++i) queue.Add("a");
  EXPECT_EQ(queue.Depth(), 1u);
  EXPECT_EQ(queue.Get()->key, "a");
  queue.Done("a");
  EXPECT_EQ(queue.Depth(), 0u);
}

TEST(WorkQueue, AKeyAddedWhileAWorkerHasItIsHandedOutAgainOnlyAfterDone) {
  FakeClock clock;
  WorkQueue queue(clock);
  queue.Add("a");
  queue.Get();
  queue.Add("a");
  queue.Add("a");
  EXPECT_EQ(queue.Depth(), 0u) << "a second worker could take it";
  queue.Done("a");
  EXPECT_EQ(queue.Depth(), 1u);
  EXPECT_EQ(queue.Get()->key, "a");
}

TEST(WorkQueue, AKeyAddedWhileProcessedComesAfterThoseThatWait) {
  FakeClock clock;
  WorkQueue queue(clock);
  queue.Add("a");
  queue.Get();
  queue.Add("b");
  queue.Add("a");
  queue.Done("a");
  EXPECT_EQ(queue.Get()->key, "b");
  EXPECT_EQ(queue.Get()->key, "a");
}

TEST(WorkQueue, TheBacklogComesFirstWhileNoOtherHasWaitedForLong) {
  FakeClock clock;
  WorkQueue queue(clock);
  queue.Add("old");
  for (int i = 0; i < 3; ++i) queue.AddToBacklog("new-" + std::to_string(i));
  EXPECT_EQ(queue.Get()->key, "new-0");
  clock.Advance(WorkQueue::kPatience - absl::Milliseconds(1));
  EXPECT_EQ(queue.Get()->key, "new-1");
  clock.Advance(absl::Milliseconds(1));
  EXPECT_EQ(queue.Get()->key, "old");
  EXPECT_EQ(queue.Get()->key, "new-2");
}

TEST(WorkQueue, TheBacklogIsNotStarvedByThoseThatHaveWaited) {
  FakeClock clock;
  WorkQueue queue(clock);
  queue.AddToBacklog("new-1");
  queue.AddToBacklog("new-2");
  for (int i = 0; i < 9; ++i) queue.Add("old-" + std::to_string(i));
  clock.Advance(WorkQueue::kPatience);
  std::string order;
  for (int i = 0; i < 11; ++i) {
    const std::string key = queue.Get()->key;
    order += key.starts_with("new") ? 'n' : 'o';
    queue.Done(key);
  }
  EXPECT_EQ(order, "ooooooonoon");
  EXPECT_EQ(queue.Depth(), 0u);
}

TEST(WorkQueue, AKeyOfTheBacklogIsMovedUpByAnAddAndHandedOutOnce) {
  FakeClock clock;
  WorkQueue queue(clock);
  queue.AddToBacklog("a");
  queue.AddToBacklog("b");
  queue.Add("b");
  queue.Add("b");
  queue.AddToBacklog("b");
  EXPECT_EQ(queue.Depth(), 2u);
  clock.Advance(WorkQueue::kPatience);
  EXPECT_EQ(queue.Get()->key, "b");
  queue.Done("b");
  queue.AddToBacklog("b");
  EXPECT_EQ(queue.Get()->key, "a");
  EXPECT_EQ(queue.Get()->key, "b");
  EXPECT_EQ(queue.Depth(), 0u);
}

TEST(WorkQueue, SoManyKeysOfTheBacklogAtOnceAsItsOptionsSay) {
  FakeClock clock;
  WorkQueue queue(clock, {.backlog_at_once = 2});
  for (int i = 0; i < 3; ++i) queue.AddToBacklog("new-" + std::to_string(i));
  EXPECT_EQ(queue.Get()->key, "new-0");
  EXPECT_EQ(queue.Get()->key, "new-1");
  queue.Add("old");
  EXPECT_EQ(queue.Get()->key, "old") << "although it has not waited";
  std::string key;
  std::thread worker([&] { key = queue.Get()->key; });
  queue.Done("new-1");
  worker.join();
  EXPECT_EQ(key, "new-2");
}

TEST(WorkQueue, ABacklogBeyondItsNumberIsDrainedAfterShutDown) {
  FakeClock clock;
  WorkQueue queue(clock, {.backlog_at_once = 1});
  queue.AddToBacklog("a");
  queue.AddToBacklog("b");
  EXPECT_EQ(queue.Get()->key, "a");
  queue.ShutDown();
  EXPECT_FALSE(queue.Get()) << "another worker has nothing to wait for";
  queue.Done("a");
  EXPECT_EQ(queue.Get()->key, "b");
  queue.Done("b");
  EXPECT_FALSE(queue.Get());
}

TEST(WorkQueue, NoKeyIsEverWithTwoWorkersAndNoneIsForgotten) {
  WorkQueue queue(RealClock());
  constexpr int kKeys = 20;
  constexpr int kRounds = 200;
  std::array<std::atomic<int>, kKeys> busy{};
  std::array<std::atomic<int>, kKeys> last_seen{};
  std::array<std::atomic<int>, kKeys> wanted{};
  std::atomic<bool> twice = false;
  std::vector<std::thread> workers;
  for (int w = 0; w < 4; ++w) {
    workers.emplace_back([&] {
      while (const auto item = queue.Get()) {
        const int key = std::stoi(item->key);
        if (busy[key].fetch_add(1) != 0) twice = true;
        last_seen[key] = wanted[key].load();
        busy[key].fetch_sub(1);
        queue.Done(item->key);
      }
    });
  }
  for (int round = 1; round <= kRounds; ++round) {
    for (int key = 0; key < kKeys; ++key) {
      wanted[key] = round;
      queue.Add(std::to_string(key));
    }
  }
  EXPECT_TRUE(queue.ShutDownAndDrain(absl::Seconds(30)));
  for (std::thread& worker : workers) worker.join();
  EXPECT_FALSE(twice);
  for (int key = 0; key < kKeys; ++key) EXPECT_EQ(last_seen[key], kRounds) << "the last change of " << key << " was not looked at";
}

TEST(WorkQueue, ADelayedKeyComesWhenItsTimeHasCome) {
  FakeClock clock;
  WorkQueue queue(clock);
  std::atomic<bool> got = false;
  std::thread worker([&] { got = queue.Get().has_value(); });
  queue.AddAfter("a", absl::Seconds(50));
  ASSERT_TRUE(clock.AwaitWaiters(1));
  clock.Advance(absl::Seconds(49));
  ASSERT_TRUE(clock.AwaitWaiters(1));
  EXPECT_FALSE(got);
  clock.Advance(absl::Seconds(1));
  worker.join();
  EXPECT_TRUE(got);
}

TEST(WorkQueue, OfTwoDelaysOfOneKeyTheEarlierWinsAndItComesOnce) {
  FakeClock clock;
  WorkQueue queue(clock);
  queue.AddAfter("a", absl::Seconds(100));
  queue.AddAfter("a", absl::Seconds(10));
  queue.AddAfter("a", absl::Seconds(50));
  clock.Advance(absl::Seconds(10));
  EXPECT_EQ(queue.Get()->key, "a");
  queue.Done("a");
  clock.Advance(absl::Seconds(200));
  queue.Add("b");
  EXPECT_EQ(queue.Get()->key, "b") << "the later delays of a were not dropped";
}

TEST(WorkQueue, ADelayOfZeroOrLessIsNoDelay) {
  FakeClock clock;
  WorkQueue queue(clock);
  queue.AddAfter("a", absl::ZeroDuration());
  queue.AddAfter("b", -absl::Seconds(5));
  EXPECT_EQ(queue.Depth(), 2u);
}

TEST(WorkQueue, AWallClockThatJumpsMovesNoDelay) {
  FakeClock clock;
  WorkQueue queue(clock);
  queue.AddAfter("a", absl::Seconds(10));
  clock.JumpWallClock(absl::Hours(5));
  queue.Add("b");
  EXPECT_EQ(queue.Get()->key, "b");
  clock.JumpWallClock(-absl::Hours(50));
  clock.Advance(absl::Seconds(10));
  EXPECT_EQ(queue.Get()->key, "a");
}

TEST(WorkQueue, FailuresOfAKeyDoubleItsWaitUntilForget) {
  FakeClock clock;
  WorkQueue queue(clock, {.max_backoff = absl::Seconds(1)});
  for (const int milliseconds : {5, 10, 20, 40}) {
    queue.AddRateLimited("a");
    clock.Advance(absl::Milliseconds(milliseconds) - absl::Microseconds(1));
    queue.Add("probe");
    EXPECT_EQ(queue.Get()->key, "probe") << milliseconds;
    queue.Done("probe");
    clock.Advance(absl::Microseconds(1));
    EXPECT_EQ(queue.Get()->key, "a");
    queue.Done("a");
  }
  EXPECT_EQ(queue.Failures("a"), 4);
  queue.Forget("a");
  EXPECT_EQ(queue.Failures("a"), 0);
  queue.AddRateLimited("a");
  clock.Advance(absl::Milliseconds(5));
  EXPECT_EQ(queue.Get()->key, "a");
}

TEST(WorkQueue, TellsHowLongAKeyWaited) {
  FakeClock clock;
  WorkQueue queue(clock);
  queue.Add("a");
  clock.Advance(absl::Seconds(3));
  queue.Add("a");
  EXPECT_EQ(queue.Get()->waited, absl::Seconds(3));
}

TEST(WorkQueue, AfterShutDownItHandsOutWhatIsQueuedThenNothing) {
  FakeClock clock;
  WorkQueue queue(clock);
  queue.Add("a");
  queue.AddAfter("later", absl::Seconds(1));
  queue.ShutDown();
  queue.Add("b");
  clock.Advance(absl::Seconds(5));
  EXPECT_EQ(queue.Get()->key, "a");
  EXPECT_FALSE(queue.Get().has_value());
}

TEST(WorkQueue, ShutDownWakesWorkersThatWait) {
  WorkQueue queue(RealClock());
  std::vector<std::thread> workers;
  for (int i = 0; i < 3; ++i) workers.emplace_back([&] { EXPECT_FALSE(queue.Get().has_value()); });
  queue.ShutDown();
  for (std::thread& worker : workers) worker.join();
}

TEST(WorkQueue, DrainWaitsForKeysUnderWayAndGivesUpAtItsDeadline) {
  FakeClock clock;
  WorkQueue queue(clock);
  queue.Add("a");
  queue.Get();
  std::atomic<int> drained = -1;
  std::thread stopper([&] { drained = queue.ShutDownAndDrain(absl::Seconds(5)) ? 1 : 0; });
  ASSERT_TRUE(clock.AwaitWaiters(1));
  EXPECT_EQ(drained, -1);
  clock.Advance(absl::Seconds(6));
  stopper.join();
  EXPECT_EQ(drained, 0);
  queue.Done("a");
  EXPECT_TRUE(queue.ShutDownAndDrain(absl::Seconds(5)));
}

TEST(RateLimiter, NeverWaitsLongerThanItsMaximum) {
  RateLimiter limiter(absl::Milliseconds(5), absl::Minutes(5));
  absl::Duration wait;
  for (int i = 0; i < 2000; ++i) {
    wait = limiter.When("a");
    ASSERT_GE(wait, absl::Milliseconds(5));
  }
  EXPECT_EQ(wait, absl::Minutes(5));
}

}  // namespace
}  // namespace trainyard::control
