// Pods that are to go and stay. Pure.
#pragma once

#include <optional>
#include <string>

#include "operator/plan/situation.h"

namespace trainyard::control {

// What holds a job up.
struct Stall {
  std::string reason;  // empty: nothing holds the job up
  std::string message;
  std::optional<absl::Time> requeue_at{};  // when something might
  bool blames_the_spec = false;            // only an edit of the job can help
};

// A Terminating pod that is overdue: because its node is not Ready (NodeNotReady), or because
// finalizers or its node keep it (Terminating).
Stall FindPodThatStays(const Situation& situation);

}  // namespace trainyard::control
