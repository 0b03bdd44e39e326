#include "operator/base/log_budget.h"

#include <utility>

namespace trainyard::control {

std::optional<int> LogBudget::Take() {
  const absl::Duration now = clock_.Monotonic();
  MutexLock lock(mutex_);
  if (now - minute_ >= absl::Minutes(1)) {
    minute_ = now;
    taken_ = 0;
  }
  if (taken_ == kPerMinute) {
    ++held_back_;
    return std::nullopt;
  }
  ++taken_;
  return std::exchange(held_back_, 0);
}

}  // namespace trainyard::control
