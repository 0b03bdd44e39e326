// Something that happens once, and threads that wait for it.
#pragma once

#include <atomic>

#include "absl/time/time.h"
#include "trainer/base/mutex.h"

namespace trainyard::engine {

// Thread-safe. As absl::Notification, but waits follow the monotonic clock (mutex.h), and a second
// Notify() changes nothing.
class Notification {
 public:
  Notification() = default;
  // A thread that saw the notification may destroy it, although Notify() has not returned yet.
  ~Notification() { const MutexLock lock(&mutex_); }
  Notification(const Notification&) = delete;
  Notification& operator=(const Notification&) = delete;

  void Notify() {
    const MutexLock lock(&mutex_);
    notified_.store(true, std::memory_order_release);
  }
  // One load, no lock.
  bool HasBeenNotified() const { return notified_.load(std::memory_order_acquire); }
  // The result is HasBeenNotified().
  bool WaitForNotificationWithTimeout(absl::Duration timeout) const {
    const MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(this, &Notification::HasBeenNotified), timeout);
  }

 private:
  mutable Mutex mutex_;
  std::atomic<bool> notified_ = false;
};

}  // namespace trainyard::engine
