#include "operator/controller/rate_limiter.h"

#include <algorithm>

namespace trainyard::control {

absl::Duration RateLimiter::When(std::string_view key) {
  MutexLock lock(mutex_);
  int& failures = failures_[std::string(key)];
  // Beyond 62 doublings every duration is at its maximum anyway.
  const absl::Duration delay = base_ * static_cast<double>(uint64_t{1} << std::min(failures, 62));
  ++failures;
  return std::min(delay, max_);
}

int RateLimiter::Failures(std::string_view key) const {
  MutexLock lock(mutex_);
  const auto it = failures_.find(std::string(key));
  return it == failures_.end() ? 0 : it->second;
}

void RateLimiter::Forget(std::string_view key) {
  MutexLock lock(mutex_);
  failures_.erase(std::string(key));
}

}  // namespace trainyard::control
