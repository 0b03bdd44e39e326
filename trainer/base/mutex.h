// A mutex whose timed waits follow the monotonic clock. absl::Mutex of Debian 12 waits on the wall
// clock, also for a duration. A clock that is set back by an hour makes such a wait an hour longer.
#pragma once

#include <condition_variable>
#include <list>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace trainyard::engine {

// For waits with a deadline, in place of absl::Mutex and with its interface. Unlock and every wait
// look at the conditions of the waiting threads, and wake those whose condition holds. A condition
// reads what the mutex guards, and nothing else.
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    Wake();
    mutex_.unlock();
  }
  // Returns when `condition` holds.
  void Await(const absl::Condition& condition) ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) { AwaitWithDeadline(condition, absl::InfiniteFuture()); }
  // Returns when `condition` holds or RealClock().Now() has reached `deadline`: whether `condition`
  // holds.
  bool AwaitWithDeadline(const absl::Condition& condition, absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(this);
  bool AwaitWithTimeout(const absl::Condition& condition, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(this);

 private:
  struct Waiter {
    const absl::Condition& condition;
    std::condition_variable wake;
  };
  void Wake();

  std::mutex mutex_;
  std::list<Waiter*> waiters_;  // guarded by mutex_
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) { mutex_->Lock(); }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

}  // namespace trainyard::engine
