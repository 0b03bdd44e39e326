#include "trainer/base/worker_pace.h"

#include <utility>

namespace trainyard::engine {

void PaceWindow::Add(absl::Time now, absl::Duration own) {
  if (!std::exchange(begun_, true)) return;
  steps_.push_back({.end = now, .own = own});
  sum_ += own;
  while (steps_.size() > kFewestSteps && steps_.front().end <= now - kWindow) {
    sum_ -= steps_.front().own;
    steps_.pop_front();
  }
}

std::optional<absl::Duration> PaceWindow::Mean() const {
  if (steps_.size() < kFewestSteps) return std::nullopt;
  return sum_ / static_cast<int64_t>(steps_.size());
}

}  // namespace trainyard::engine
