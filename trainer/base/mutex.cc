#include "trainer/base/mutex.h"

#include <algorithm>
#include <chrono>

#include "trainer/base/clock.h"

namespace trainyard::engine {

bool Mutex::AwaitWithDeadline(const absl::Condition& condition, absl::Time deadline) {
  constexpr absl::Duration kLongest = absl::Hours(24);  // of one wait of the system: it cannot overflow
  if (condition.Eval()) return true;
  Waiter waiter{.condition = condition, .wake = {}};
  const auto self = waiters_.insert(waiters_.end(), &waiter);
  Wake();
  std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
  bool holds = false;
  while (true) {
    const absl::Duration left = deadline - RealClock().Now();
    if (left <= absl::ZeroDuration()) break;
    waiter.wake.wait_until(lock, std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(std::min(left, kLongest)));
    holds = condition.Eval();
    if (holds) break;
  }
  lock.release();
  waiters_.erase(self);
  return holds;
}

bool Mutex::AwaitWithTimeout(const absl::Condition& condition, absl::Duration timeout) {
  return AwaitWithDeadline(condition, RealClock().Now() + timeout);
}

void Mutex::Wake() {
  for (Waiter* const waiter : waiters_) {
    if (waiter->condition.Eval()) waiter->wake.notify_one();
  }
}

}  // namespace trainyard::engine
