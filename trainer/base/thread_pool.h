// Threads that work on parts of one job at a time, without allocating. They spin for the next job,
// and for each other, as long as such waits are short (spin_wait.h).
#pragma once

#include <stdint.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <type_traits>
#include <utility>
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
        count,
        [](void* context, int64_t begin, int64_t end, int thread) {
          (*static_cast<std::remove_reference_t<Work>*>(context))(begin, end, thread);
        },
        const_cast<void*>(static_cast<const void*>(&work)));
  }

  // The same in pieces of at most `piece`. Each thread begins with its part of [0, count), from the
  // first piece on, and goes on with pieces of others once it has none. So a thread that is slow
  // for a moment keeps nobody waiting for long. A thread may have any number of pieces.
  template <typename Work>
  void RunShared(int64_t count, int64_t piece, Work&& work) {
    const int64_t pieces = (count + piece - 1) / piece;
    if (workers_.empty() || pieces <= 1) return Run(count, std::forward<Work>(work));
    BeginShares(pieces);
    Run(threads(), [&](int64_t first, int64_t, int thread) {
      for (int64_t taken = Take(static_cast<int>(first)); taken >= 0; taken = Take(static_cast<int>(first))) {
        work(taken * piece, std::min(count, (taken + 1) * piece), thread);
      }
    });
  }

 private:
  // The pieces [next, end) that nobody has taken, on a cache line of their own.
  struct alignas(64) Share {
    std::atomic<int64_t> next = 0;
    int64_t end = 0;
  };

  using Function = void (*)(void* context, int64_t begin, int64_t end, int thread);

  // Divides [0, pieces) among the threads.
  void BeginShares(int64_t pieces);
  // A piece of this thread's share, or of the next thread's that has one; -1: all are taken.
  int64_t Take(int thread);
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
  std::vector<Share> shares_;  // [thread], of RunShared
  absl::Mutex mutex_;          // what sleeping threads wait on; held where job_ and stop_ change
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> workers_;  // constant after construction
};

}  // namespace trainyard::engine
