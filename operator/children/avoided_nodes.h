// Which nodes a replica's next pod keeps away from, by status.failedNodes. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "operator/children/labels.h"

namespace trainyard::control {

// Of one replica, or of all of a job that restart together.
inline constexpr size_t kMostAvoidedNodes = 8;

// Whether the replica, such as "worker-1", restarts together with others.
bool IsOfGroup(const TrainingJob& job, std::string_view replica);

// Whether `replica` keeps away from that node, because it failed there or, where all restart
// together, another one did.
bool AvoidsTogether(const TrainingJob& job, const FailedNode& failed, std::string_view replica);

std::vector<std::string> NodesToAvoid(const TrainingJob& job, const ReplicaId& id);

// Adds a required node affinity to the pod's spec: to each of its terms, because one of them must
// hold. It names nodes by their names, which the label kubernetes.io/hostname may differ from.
void KeepAway(const TrainingJob& job, const ReplicaId& id, nlohmann::json& spec);

}  // namespace trainyard::control
