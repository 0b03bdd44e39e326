// What holds a job up. Pure.
#pragma once

#include <optional>
#include <string>

#include "operator/trainingjob/restart_policy.h"
#include "operator/trainingjob/situation.h"

namespace trainyard::control {

struct Stall {
  std::string reason;  // empty: nothing holds the job up
  std::string message;
  std::optional<absl::Time> look_again_at;  // when something might
};

// A child's name that is taken, else a pod that cannot start, else a step that does not move.
Stall FindStall(const Situation& situation, const TrainingJobStatus& status, const Restarts& restarts);

}  // namespace trainyard::control
