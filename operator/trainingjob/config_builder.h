// The ConfigMap <job>-cluster: host lists and training.json (docs/contract.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "operator/api/core.h"
#include "operator/trainingjob/labels.h"

namespace trainyard::control {

// Addresses (host:port) of the role's replicas in numeric order.
std::vector<std::string> Addresses(const TrainingJob& job, Role role);

// What hosts_epoch numbers: a hash of everything in the host lists but the epoch itself.
std::string HostsHash(const TrainingJob& job);

// `data` of the ConfigMap, for the host lists' version `epoch`.
nlohmann::json BuildConfigData(const TrainingJob& job, int64_t epoch);
// Whether a ConfigMap has that data.
bool HoldsHosts(const ConfigMap& config, const TrainingJob& job, int64_t epoch);
nlohmann::json BuildConfigMap(const TrainingJob& job, int64_t epoch);

}  // namespace trainyard::control
