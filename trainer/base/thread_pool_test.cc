#include "trainer/base/thread_pool.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

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
