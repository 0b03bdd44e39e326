// Threads that work on parts of one job at a time, without allocating. They spin for the next job,
// and for each other, as long as such waits are short (spin_wait.h).
#pragma once

#include <stdint.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/base/spin_wait.h"

namespace trainyard::engine {

// The caller of Run is one of the threads. A pool of one has no thread of its own, and Run is a
// plain call. Run may be called from one thread at a time.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls work(begin, end, thread) for up to threads() consecutive pieces of [0, count), each on a
  // thread of its own. Returns when all are done. Each piece always goes to the same thread; `work`
  // must give the same result however it is cut.
  template <typename Work>
  void Run(int64_t count, Work&& work) {
    if (count <= 0) return;
    if (workers_.empty() || count == 1) {
      work(int64_t{0}, count, 0);
      return;
    }
    Dispatch(
        count, [](void* context, int64_t begin, int64_t end, int thread) { (*static_cast<Work*>(context))(begin, end, thread); },
        const_cast<void*>(static_cast<const void*>(&work)));
  }

 private:
  using Function = void (*)(void* context, int64_t begin, int64_t end, int thread);

  void Dispatch(int64_t count, Function function, void* context);
  void RunPart(int thread) const;
  void Loop(int thread);

  // The job: written before job_ counts up, read until busy_ is 0.
  Function function_ = nullptr;
  void* context_ = nullptr;
  int64_t count_ = 0;
  std::atomic<int64_t> job_ = 0;  // counts up; a worker runs each once
  std::atomic<int> busy_ = 0;     // workers that have not run it
  SpinBudget caller_budget_;
  absl::Mutex mutex_;  // what sleeping threads wait on; held where job_ and stop_ change
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> workers_;  // constant after construction
};

}  // namespace trainyard::engine
