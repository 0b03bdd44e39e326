// One thread that writes what was saved while the step loop goes on.
#pragma once

#include <functional>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "trainer/base/mutex.h"

namespace trainyard::engine {

// Used from one thread, but for its own. One save at a time. The destructor waits for the save
// under way.
class SaveThread {
 public:
  SaveThread() = default;
  ~SaveThread();
  SaveThread(const SaveThread&) = delete;
  SaveThread& operator=(const SaveThread&) = delete;

  // Only while idle() and after Take() gave the last outcome. `save` runs here where no thread can
  // be had.
  void Start(std::function<absl::Status()> save);
  // Nothing is under way.
  bool idle() const;
  // Waits until nothing is under way; Unavailable: it takes longer.
  absl::Status AwaitIdle(absl::Duration at_most);
  // The outcome of a save that has ended, once.
  std::optional<absl::Status> Take();

 private:
  void Run();

  mutable Mutex mutex_;
  std::function<absl::Status()> save_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> outcome_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;  // from the first Start on
};

}  // namespace trainyard::engine
