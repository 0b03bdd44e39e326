// Counts payloads that point into memory of the caller, by the peer that they are for. The caller
// can wait until none is left, and name the peers that still have some.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "trainer/base/mutex.h"

namespace trainyard::engine {

// Thread-safe. Tokens may outlive it.
class BorrowCount {
 public:
  // An owner for a payload to `peer`; the loan ends with its last copy.
  std::shared_ptr<const void> Lend(int peer) {
    {
      MutexLock lock(&state_->mutex);
      ++state_->loans[peer];
    }
    return {nullptr, [state = state_, peer](const void* /*nothing*/) {
              MutexLock lock(&state->mutex);
              --state->loans[peer];
            }};
  }
  // False when loans were left at the deadline.
  bool AwaitNone(absl::Time deadline) {
    MutexLock lock(&state_->mutex);
    return state_->mutex.AwaitWithDeadline(absl::Condition(&NoneIsLeft, &state_->loans), deadline);
  }
  // Peers with loans, in rising order.
  std::vector<int> Borrowers() const {
    MutexLock lock(&state_->mutex);
    std::vector<int> peers;
    for (const auto& [peer, loans] : state_->loans) {
      if (loans > 0) peers.push_back(peer);
    }
    return peers;
  }

 private:
  static bool NoneIsLeft(std::map<int, int>* loans) {
    return std::ranges::all_of(*loans, [](const auto& of_peer) { return of_peer.second == 0; });
  }

  struct State {
    mutable Mutex mutex;
    std::map<int, int> loans ABSL_GUARDED_BY(mutex);  // by peer; zeros stay: the next step lends to the same peers
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace trainyard::engine
