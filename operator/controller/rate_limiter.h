// How long a key that failed waits: exponential per key (client-go's
// ItemExponentialFailureRateLimiter).
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "operator/base/mutex.h"

namespace trainyard::control {

// Thread-safe. The n-th failure in a row waits base * 2^(n-1), at most max.
class RateLimiter {
 public:
  explicit RateLimiter(absl::Duration base = absl::Milliseconds(5), absl::Duration max = absl::Minutes(5)) : base_(base), max_(max) {}

  absl::Duration When(std::string_view key);
  int Failures(std::string_view key) const;
  void Forget(std::string_view key);

 private:
  const absl::Duration base_;
  const absl::Duration max_;
  mutable Mutex mutex_;
  std::unordered_map<std::string, int> failures_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trainyard::control
