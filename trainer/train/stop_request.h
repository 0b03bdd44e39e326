// SIGTERM and SIGINT as a flag that the loop reads between steps, with a hard end for a loop that does not get there.
#pragma once

#include <atomic>
#include <csignal>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace trainyard::engine {

inline constexpr int kStoppedExitCode = 143;  // 128 + SIGTERM: the work can go on from the last checkpoint (docs/contract.md)

// Create it first thing in main's thread, before any other thread: it blocks both signals for all threads and waits for them on its own.
// After the first signal requested() is true; `grace` later, or at a second signal, the process ends with kStoppedExitCode whatever it is
// doing (checkpoints are renamed into place, so none is damaged).
class StopRequest {
 public:
  explicit StopRequest(absl::Duration grace = absl::Seconds(8));
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // Any thread; cheap enough for every step.
  bool requested() const { return requested_.HasBeenNotified(); }
  // Waits for the request, at most until `deadline`; true when it came. Any thread.
  bool Await(absl::Time deadline) { return requested_.WaitForNotificationWithDeadline(deadline); }

 private:
  void Watch(sigset_t signals);

  const absl::Duration grace_;
  absl::Notification requested_;
  std::atomic<bool> ending_ = false;
  std::thread watcher_;
};

}  // namespace trainyard::engine
