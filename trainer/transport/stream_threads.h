// The threads of streams, and the thread that joins them.
#pragma once

#include <functional>
#include <list>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "trainer/base/mutex.h"

namespace trainyard::engine {

// Thread-safe.
class StreamThreads {
 public:
  StreamThreads() = default;
  StreamThreads(const StreamThreads&) = delete;
  StreamThreads& operator=(const StreamThreads&) = delete;
  // Await() must have been called.
  ~StreamThreads() = default;

  // Runs `work` in a thread, and joins those that have ended. ResourceExhausted: there can be no
  // thread.
  absl::Status Start(std::function<void()> work);
  // Joins the threads that end until the deadline, and gives up the others: whether there were
  // none.
  bool Await(absl::Time deadline);

 private:
  struct Worker {
    std::thread thread;
    bool ended = false;
  };
  // Those that have ended, taken out.
  std::list<Worker> TakeEnded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mutex);

  // Outlives this: of threads that were given up.
  struct State {
    Mutex mutex;
    std::list<Worker> workers ABSL_GUARDED_BY(mutex);
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace trainyard::engine
