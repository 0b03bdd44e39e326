// Counts payloads that point into memory of the caller, so that the caller can wait until none is
// left.
#pragma once

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "trainer/base/mutex.h"

namespace trainyard::engine {

// Thread-safe. Tokens may outlive it.
class BorrowCount {
 public:
  // An owner for a payload; the loan ends with its last copy.
  std::shared_ptr<const void> Lend() {
    {
      MutexLock lock(&state_->mutex);
      ++state_->loans;
    }
    return {nullptr, [state = state_](const void* /*nothing*/) {
              MutexLock lock(&state->mutex);
              --state->loans;
            }};
  }
  // False when loans were left at the deadline.
  bool AwaitNone(absl::Time deadline) {
    MutexLock lock(&state_->mutex);
    return state_->mutex.AwaitWithDeadline(absl::Condition(+[](int* loans) { return *loans == 0; }, &state_->loans), deadline);
  }

 private:
  struct State {
    Mutex mutex;
    int loans ABSL_GUARDED_BY(mutex) = 0;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace trainyard::engine
