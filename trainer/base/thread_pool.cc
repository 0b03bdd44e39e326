#include "trainer/base/thread_pool.h"

#include "trainer/base/check.h"

namespace trainyard::engine {

ThreadPool::ThreadPool(int threads) : shares_(std::max(threads, 0)) {
  TY_CHECK(threads >= 1);
  workers_.reserve(threads - 1);
  for (int thread = 1; thread < threads; ++thread) workers_.emplace_back([this, thread] { Loop(thread); });
}

ThreadPool::~ThreadPool() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Dispatch(int64_t count, Function function, void* context) {
  function_ = function;
  context_ = context;
  count_ = count;
  busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  {
    absl::MutexLock lock(&mutex_);
    job_.fetch_add(1, std::memory_order_release);
  }
  RunPart(0);
  const auto done = [this] { return busy_.load(std::memory_order_acquire) == 0; };
  SpinThenSleep(caller_budget_, done, [&] {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&done));
  });
}

void ThreadPool::BeginShares(int64_t pieces) {
  for (int thread = 0; thread < threads(); ++thread) {
    shares_[thread].next.store(pieces * thread / threads(), std::memory_order_relaxed);
    shares_[thread].end = pieces * (thread + 1) / threads();
  }
}

int64_t ThreadPool::Take(int thread) {
  for (int i = 0; i < threads(); ++i) {
    Share& share = shares_[(thread + i) % threads()];
    if (share.next.load(std::memory_order_relaxed) >= share.end) continue;
    const int64_t piece = share.next.fetch_add(1, std::memory_order_relaxed);
    if (piece < share.end) return piece;
  }
  return -1;
}

void ThreadPool::RunPart(int thread) const {
  const int64_t begin = count_ * thread / threads();
  const int64_t end = count_ * (thread + 1) / threads();
  if (begin < end) function_(context_, begin, end, thread);
}

void ThreadPool::Loop(int thread) {
  SpinBudget budget;
  int64_t done = 0;
  while (true) {
    const auto wanted = [&] { return job_.load(std::memory_order_acquire) != done; };
    bool stop = false;
    SpinThenSleep(budget, wanted, [&] {
      const auto wanted_or_stop = [&] {
        mutex_.AssertReaderHeld();
        return stop_ || wanted();
      };
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&wanted_or_stop));
      stop = stop_;
    });
    if (stop) return;
    ++done;
    RunPart(thread);
    busy_.fetch_sub(1, std::memory_order_release);
    absl::MutexLock lock(&mutex_);  // a caller that sleeps looks again when it is released
  }
}

}  // namespace trainyard::engine
