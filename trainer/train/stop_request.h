// SIGTERM, SIGINT and SIGHUP as a flag that the loop reads between steps, with a hard end for a
// loop that does not get there.
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <thread>

#include "absl/time/time.h"
#include "trainer/base/notification.h"
#include "trainer/base/timeouts.h"

namespace trainyard::engine {

// Create it first thing in main's thread, before any other thread: it blocks them for all
// threads and waits for them on its own. After the first signal requested() is true. A grace later,
// or at a second signal (base/one_stop.h), the process ends with kStoppedExitCode at once. No
// checkpoint is damaged by that, as they are renamed into place.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // timeouts.stop, once it is known; until then its default holds. Any thread.
  void SetGrace(absl::Duration grace) { grace_ms_ = absl::ToInt64Milliseconds(grace); }
  // Any thread; cheap enough for every step.
  bool requested() const { return requested_.HasBeenNotified(); }
  // Waits for the request, for `at_most`; true when it came. Any thread.
  bool Await(absl::Duration at_most) { return requested_.WaitForNotificationWithTimeout(at_most); }

 private:
  void Watch(sigset_t signals);

  std::atomic<int64_t> grace_ms_ = absl::ToInt64Milliseconds(TimeoutsConfig().stop);
  Notification requested_;
  std::atomic<bool> ending_ = false;
  std::thread watcher_;
};

}  // namespace trainyard::engine
