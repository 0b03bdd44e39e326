// FanOut: a few calls at once, for a reconcile that creates many children.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "operator/base/mutex.h"

namespace trainyard::control {

// Thread-safe. `threads` helpers are shared by all callers; the caller works too, so it never waits
// for a free helper.
class FanOut {
 public:
  explicit FanOut(int threads);
  ~FanOut();

  // Runs call(0) … call(count - 1), some at once; returns when all have returned. call must not
  // throw.
  void ForEach(size_t count, const std::function<void(size_t)>& call);

 private:
  struct Batch;
  void Help();
  // Runs the next call of the batch without the lock; false when all were taken.
  bool TakeOne(Batch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  CondVar wanted_;                           // a helper; one is woken for each call, as long as some are idle
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;  // helpers that wait
  std::deque<std::shared_ptr<Batch>> batches_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace trainyard::control
