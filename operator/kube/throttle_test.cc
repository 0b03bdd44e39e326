#include "operator/kube/throttle.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "operator/base/fake_clock.h"

namespace trainyard::control {
namespace {

constexpr absl::Duration kNever = absl::InfiniteDuration();

TEST(Throttle, ABurstPassesAtOnceThenOneRequestPerPeriod) {
  FakeClock clock;
  Throttle throttle(clock, {.qps = 10, .burst = 3});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(throttle.Acquire(clock.Monotonic(), {}).ok()) << i;
  EXPECT_TRUE(absl::IsDeadlineExceeded(throttle.Acquire(clock.Monotonic() + absl::Milliseconds(99), {})));
  clock.Advance(absl::Milliseconds(100));
  EXPECT_TRUE(throttle.Acquire(clock.Monotonic(), {}).ok());
  EXPECT_FALSE(throttle.Acquire(clock.Monotonic(), {}).ok());
}

TEST(Throttle, AWaiterGoesOnWhenItsTokenComes) {
  FakeClock clock;
  Throttle throttle(clock, {.qps = 1, .burst = 1});
  ASSERT_TRUE(throttle.Acquire(kNever, {}).ok());
  std::atomic<bool> through = false;
  std::thread waiter([&] { through = throttle.Acquire(kNever, {}).ok(); });
  ASSERT_TRUE(clock.AwaitWaiters(1));
  EXPECT_FALSE(through);
  clock.Advance(absl::Seconds(1));
  waiter.join();
  EXPECT_TRUE(through);
}

TEST(Throttle, NothingPassesDuringAPauseEvenWithTokensLeft) {
  FakeClock clock;
  Throttle throttle(clock, {.qps = 100, .burst = 100});
  throttle.PauseFor(absl::Seconds(5));
  throttle.PauseFor(absl::Seconds(1));  // a shorter one does not shorten it
  EXPECT_TRUE(absl::IsDeadlineExceeded(throttle.Acquire(clock.Monotonic() + absl::Seconds(4), {})));
  clock.Advance(absl::Seconds(5));
  EXPECT_TRUE(throttle.Acquire(clock.Monotonic(), {}).ok());
}

TEST(Throttle, APauseThatBeginsWhileSomebodyWaitsHoldsThemToo) {
  FakeClock clock;
  Throttle throttle(clock, {.qps = 1, .burst = 1});
  ASSERT_TRUE(throttle.Acquire(kNever, {}).ok());
  std::atomic<bool> through = false;
  std::thread waiter([&] { through = throttle.Acquire(kNever, {}).ok(); });
  ASSERT_TRUE(clock.AwaitWaiters(1));
  throttle.PauseFor(absl::Seconds(10));
  clock.Advance(absl::Seconds(2));
  ASSERT_TRUE(clock.AwaitWaiters(1));
  EXPECT_FALSE(through);
  clock.Advance(absl::Seconds(8));
  waiter.join();
  EXPECT_TRUE(through);
}

TEST(Throttle, StopEndsTheWait) {
  FakeClock clock;
  Throttle throttle(clock, {.qps = 0.001, .burst = 1});
  ASSERT_TRUE(throttle.Acquire(kNever, {}).ok());
  std::stop_source stop;
  absl::Status status;
  std::thread waiter([&] { status = throttle.Acquire(kNever, stop.get_token()); });
  ASSERT_TRUE(clock.AwaitWaiters(1));
  stop.request_stop();
  waiter.join();
  EXPECT_TRUE(absl::IsCancelled(status));
}

TEST(Throttle, WithoutALimitOnlyPausesHold) {
  FakeClock clock;
  Throttle throttle(clock, {.qps = 0});
  for (int i = 0; i < 10000; ++i) ASSERT_TRUE(throttle.Acquire(clock.Monotonic(), {}).ok());
}

}  // namespace
}  // namespace trainyard::control
