// A clock that tests move by hand.
#pragma once

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "operator/base/clock.h"
#include "operator/base/mutex.h"

namespace trainyard::control {

// Thread-safe. Advance() moves both clocks and wakes every waiter; JumpWallClock() moves only
// Now(), as an administrator or NTP would.
class FakeClock : public Clock {
 public:
  explicit FakeClock(absl::Time now = absl::UnixEpoch() + absl::Hours(24 * 365 * 50)) : now_(now) {}

  absl::Time Now() override;
  absl::Duration Monotonic() override;
  void WaitUntil(CondVar& condition, Mutex& mutex, absl::Duration deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) override;

  void Advance(absl::Duration duration);
  void JumpWallClock(absl::Duration by);
  // Waits (in real time, at most 10 s) until `count` threads wait for a finite deadline. False when
  // they did not come.
  bool AwaitWaiters(size_t count);
  // Advances, unless fewer than `count` threads wait for a finite deadline, or one of their
  // deadlines has come: that thread has not run since. So time does not run away from threads that
  // lack a processor. False when it did not advance.
  bool AdvanceWhileAwaited(absl::Duration duration, size_t count);
  // The earliest deadline that a thread waits for now, as Monotonic() counts; infinite where none
  // does.
  absl::Duration NextDeadline();

 private:
  size_t FiniteWaiters() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AdvanceLocked(absl::Duration duration) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  struct Waiter {
    CondVar* condition;
    Mutex* mutex;
    absl::Duration deadline;
  };

  Mutex mutex_;
  CondVar changed_ ABSL_GUARDED_BY(mutex_);
  absl::Time now_ ABSL_GUARDED_BY(mutex_);
  absl::Duration monotonic_ ABSL_GUARDED_BY(mutex_) = absl::Seconds(1000);
  std::vector<Waiter*> waiters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trainyard::control
