#include "operator/base/clock.h"

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"

namespace trainyard::control {
namespace {

class SystemClock : public Clock {
 public:
  absl::Time Now() override { return absl::Now(); }

  absl::Duration Monotonic() override { return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch()); }

  void WaitUntil(CondVar& condition, Mutex& mutex, absl::Duration deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) override {
    if (deadline == absl::InfiniteDuration()) {
      condition.Wait(mutex);
      return;
    }
    // A day at most, so that adding it to the steady clock cannot overflow; callers loop.
    const absl::Duration left = std::min(deadline - Monotonic(), absl::Hours(24));
    if (left > absl::ZeroDuration()) condition.WaitFor(mutex, absl::ToChronoNanoseconds(left));
  }
};

}  // namespace

Clock& RealClock() {
  static SystemClock* const kClock = new SystemClock;
  return *kClock;
}

bool SleepFor(Clock& clock, absl::Duration duration, std::stop_token stop) {
  Mutex mutex;
  CondVar condition;
  const std::stop_callback wake(stop, [&] {
    MutexLock lock(mutex);
    condition.NotifyAll();
  });
  const absl::Duration deadline = clock.Monotonic() + duration;
  MutexLock lock(mutex);
  while (!stop.stop_requested() && clock.Monotonic() < deadline) clock.WaitUntil(condition, mutex, deadline);
  return !stop.stop_requested();
}

}  // namespace trainyard::control
