#include "operator/controller/fan_out.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace trainyard::control {
namespace {

TEST(FanOut, MakesEachCallOnceAndReturnsWhenAllHaveReturned) {
  FanOut fan_out(3);
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        std::vector<std::atomic<int>> calls(17);
        fan_out.ForEach(calls.size(), [&](size_t i) { ++calls[i]; });
        for (const auto& count : calls) ASSERT_EQ(count, 1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(FanOut, CallsRunAtTheSameTime) {
  FanOut fan_out(3);
  std::atomic<int> inside = 0;
  std::atomic<int> together = 0;
  // Each of four calls waits for the other three: it ends only if all four run at once.
  fan_out.ForEach(4, [&](size_t) {
    ++inside;
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (inside < 4 && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
    if (inside == 4) ++together;
  });
  EXPECT_EQ(together, 4);
}

int64_t TimesOfWaiting() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nvcsw;
}

// 48 helpers that wake for two children of a job take more processor time than the requests.
TEST(FanOut, NoMoreHelpersWakeThanThereAreCalls) {
  constexpr int kRounds = 200;
  FanOut fan_out(48);
  std::atomic<int> calls = 0;
  const int64_t before = TimesOfWaiting();
  for (int round = 1; round <= kRounds; ++round) {
    // Each of two calls waits for the other: a helper has to come.
    fan_out.ForEach(2, [&](size_t) {
      ++calls;
      const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (calls < 2 * round && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
    });
  }
  EXPECT_EQ(calls, 2 * kRounds);
  // The caller and one helper, each of which may wait for the lock too. Every thread begins once.
  EXPECT_LT(TimesOfWaiting() - before, 8 * kRounds + 4 * 48);
}

TEST(FanOut, WithoutHelpersTheCallerDoesEverything) {
  FanOut fan_out(0);
  int calls = 0;
  fan_out.ForEach(5, [&](size_t) { ++calls; });
  fan_out.ForEach(0, [&](size_t) { ++calls; });
  EXPECT_EQ(calls, 5);
}

}  // namespace
}  // namespace trainyard::control
