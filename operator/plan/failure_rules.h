// What a pod's failure means by runPolicy.podFailurePolicy: by the exit codes of all its containers
// and by its conditions. Pure.
#pragma once

#include <optional>
#include <string>

#include "operator/api/core.h"
#include "operator/api/training_job.h"
#include "operator/plan/replica_state.h"

namespace trainyard::control {

struct RuleMatch {
  FailureAction action = FailureAction::kCount;
  // "runPolicy.podFailurePolicy.rules[1] says Count: init container fetch ended with exit code 3"
  std::string why;
};

// By the first rule that matches. Of a failed pod all containers count that ended with another code
// than 0. A disrupted pod is matched by its conditions alone: its containers did not end by
// themselves. Of a pod that has not ended, only a container that a rule names counts: nothing
// restarts it. Of those, init containers are left out, as the kubelet restarts them.
std::optional<RuleMatch> MatchFailureRules(const RunPolicy& policy, const Pod& pod, PodState state);

}  // namespace trainyard::control
