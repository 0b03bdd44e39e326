#include "trainer/base/thread_pool.h"

#include "trainer/base/check.h"

namespace trainyard::engine {

ThreadPool::ThreadPool(int threads) {
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
  {
    absl::MutexLock lock(&mutex_);
    function_ = function;
    context_ = context;
    count_ = count;
    busy_ = static_cast<int>(workers_.size());
    ++job_;
  }
  RunPart(0, function, context, count);
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(+[](int* busy) { return *busy == 0; }, &busy_));
}

void ThreadPool::RunPart(int thread, Function function, void* context, int64_t count) const {
  const int64_t begin = count * thread / threads();
  const int64_t end = count * (thread + 1) / threads();
  if (begin < end) function(context, begin, end, thread);
}

void ThreadPool::Loop(int thread) {
  int64_t done = 0;
  mutex_.Lock();
  while (true) {
    const auto wanted = [&] {
      mutex_.AssertReaderHeld();
      return stop_ || job_ != done;
    };
    mutex_.Await(absl::Condition(&wanted));
    if (stop_) break;
    done = job_;
    const Function function = function_;
    void* context = context_;
    const int64_t count = count_;
    mutex_.Unlock();
    RunPart(thread, function, context, count);
    mutex_.Lock();
    --busy_;
  }
  mutex_.Unlock();
}

}  // namespace trainyard::engine
