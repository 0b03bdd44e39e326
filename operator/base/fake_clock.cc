#include "operator/base/fake_clock.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace trainyard::control {

absl::Time FakeClock::Now() {
  MutexLock lock(mutex_);
  return now_;
}

absl::Duration FakeClock::Monotonic() {
  MutexLock lock(mutex_);
  return monotonic_;
}

void FakeClock::WaitUntil(CondVar& condition, Mutex& mutex, absl::Duration deadline) {
  Waiter self{&condition, &mutex, deadline};
  {
    MutexLock lock(mutex_);
    if (monotonic_ >= deadline) return;
    waiters_.push_back(&self);
    changed_.NotifyAll();
  }
  // A short real wait instead of an endless one: an Advance between the registration and the wait
  // cannot be lost, because callers loop.
  condition.WaitFor(mutex, std::chrono::milliseconds(5));
  MutexLock lock(mutex_);
  std::erase(waiters_, &self);
}

void FakeClock::Advance(absl::Duration duration) {
  MutexLock lock(mutex_);
  AdvanceLocked(duration);
}

bool FakeClock::AdvanceWhileAwaited(absl::Duration duration, size_t count) {
  MutexLock lock(mutex_);
  const absl::Duration now = monotonic_;
  const bool late = std::any_of(waiters_.begin(), waiters_.end(), [now](const Waiter* waiter) { return waiter->deadline <= now; });
  if (late || FiniteWaiters() < count) return false;
  AdvanceLocked(duration);
  return true;
}

void FakeClock::AdvanceLocked(absl::Duration duration) {
  now_ += duration;
  monotonic_ += duration;
  for (Waiter* waiter : waiters_) waiter->condition->NotifyAll();
}

void FakeClock::JumpWallClock(absl::Duration by) {
  MutexLock lock(mutex_);
  now_ += by;
}

size_t FakeClock::FiniteWaiters() const {
  const auto finite = [](const Waiter* waiter) { return waiter->deadline < absl::InfiniteDuration(); };
  return static_cast<size_t>(std::count_if(waiters_.begin(), waiters_.end(), finite));
}

bool FakeClock::AwaitWaiters(size_t count) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  MutexLock lock(mutex_);
  while (FiniteWaiters() < count) {
    if (std::chrono::steady_clock::now() >= give_up) return false;
    changed_.WaitFor(mutex_, std::chrono::milliseconds(100));
  }
  return true;
}

absl::Duration FakeClock::NextDeadline() {
  MutexLock lock(mutex_);
  absl::Duration earliest = absl::InfiniteDuration();
  for (const Waiter* waiter : waiters_) earliest = std::min(earliest, waiter->deadline);
  return earliest;
}

}  // namespace trainyard::control
