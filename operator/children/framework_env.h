// The environment that each framework reads to find its peers.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "operator/children/labels.h"

namespace trainyard::control {

inline constexpr std::string_view kConfigDir = "/etc/trainyard";

using EnvironmentList = std::vector<std::pair<std::string, std::string>>;

// Name and value in a fixed order: TRAINYARD_* first, then the framework's own.
EnvironmentList ReplicaEnvironment(const TrainingJob& job, const ReplicaId& id);

}  // namespace trainyard::control
