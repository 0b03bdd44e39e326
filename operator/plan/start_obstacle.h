// Why a pod does not start, and what to do about it. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "operator/api/core.h"
#include "operator/children/labels.h"

namespace trainyard::control {

struct ObstaclePatience {
  absl::Duration refused = absl::Seconds(30);  // after the pod was created: the kubelet or the scheduler says what is wrong
  absl::Duration creating = absl::Minutes(2);  // no reason is known, and no container runs
};

struct Obstacle {
  std::string reason;     // one of those that docs/operator.md lists for Stalled
  std::string message;    // what is wrong, in the words of the scheduler or the kubelet, and the next step
  absl::Time stalled_at;  // from then on it is worth telling
};

// Of a pod that has not started yet, or whose init containers have not ended; nothing when it is on
// its way.
std::optional<Obstacle> StartObstacle(const ReplicaId& id, const Pod& pod, const ObstaclePatience& patience);

}  // namespace trainyard::control
