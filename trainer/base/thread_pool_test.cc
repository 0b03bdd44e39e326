#include "trainer/base/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <thread>

#include "absl/time/clock.h"

namespace trainyard::engine {
namespace {

TEST(ThreadPool, EveryPieceRunsExactlyOnceJobAfterJob) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t count : {0, 1, 2, 3, 7, 100}) {
      for (int job = 0; job < 50; ++job) {
        std::vector<int> runs(count);
        pool.Run(count, [&](int64_t begin, int64_t end, int) {
          for (int64_t i = begin; i < end; ++i) ++runs[i];
        });
        ASSERT_EQ(std::accumulate(runs.begin(), runs.end(), 0), count);
        ASSERT_TRUE(std::all_of(runs.begin(), runs.end(), [](int n) { return n == 1; }));
      }
    }
  }
}

TEST(ThreadPool, SharedPiecesRunExactlyOnceJobAfterJob) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (const int64_t count : {0, 1, 2, 3, 7, 100}) {
      for (const int64_t piece : {1, 2, 7, 1000}) {
        for (int job = 0; job < 20; ++job) {
          std::vector<std::atomic<int>> runs(count);
          pool.RunShared(count, piece, [&](int64_t begin, int64_t end, int thread) {
            ASSERT_LT(thread, threads);
            for (int64_t i = begin; i < end; ++i) ++runs[i];
          });
          ASSERT_TRUE(std::ranges::all_of(runs, [](const auto& n) { return n == 1; })) << count << " in pieces of " << piece;
        }
      }
    }
  }
}

// Thread 1 waits in its first piece until thread 0 has run all the others.
TEST(ThreadPool, AThreadTakesThePiecesOfOneThatIsSlow) {
  constexpr int kPieces = 8;
  ThreadPool pool(2);
  std::atomic<int> others = 0;
  pool.RunShared(kPieces, 1, [&](int64_t begin, int64_t, int thread) {
    if (thread == 1 && begin == kPieces / 2) {
      const absl::Time deadline = absl::Now() + absl::Seconds(20);
      while (others < kPieces - 1 && absl::Now() < deadline) std::this_thread::yield();
    } else {
      ++others;
    }
  });
  EXPECT_GE(others, kPieces - 1);
}

TEST(ThreadPool, PiecesOfOneJobHaveDifferentThreadNumbersBelowThreads) {
  ThreadPool pool(3);
  absl::Mutex mutex;
  std::multiset<int> seen;
  pool.Run(3, [&](int64_t, int64_t, int thread) {
    absl::MutexLock lock(&mutex);
    seen.insert(thread);
  });
  EXPECT_EQ(seen, (std::multiset<int>{0, 1, 2}));
}

TEST(ThreadPool, OneThreadRunsOnTheCaller) {
  ThreadPool pool(1);
  std::thread::id id;
  pool.Run(10, [&](int64_t, int64_t, int) { id = std::this_thread::get_id(); });
  EXPECT_EQ(id, std::this_thread::get_id());
}

}  // namespace
}  // namespace trainyard::engine
