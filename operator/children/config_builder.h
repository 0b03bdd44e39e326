// The ConfigMap <job>-cluster: host lists and training.json (docs/contract.md).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "operator/api/core.h"
#include "operator/children/labels.h"

namespace trainyard::control {

// Addresses (host:port) of the role's replicas in numeric order.
std::vector<std::string> Addresses(const TrainingJob& job, Role role);

// A hash of everything in the host lists but the epoch itself: hosts_epoch numbers its changes.
std::string HostsHash(const TrainingJob& job);

// `data` of the ConfigMap, for the host lists' version `epoch`. `key`: the job's; "": it is not in
// the ConfigMap.
nlohmann::json BuildConfigData(const TrainingJob& job, int64_t epoch, const std::string& key);
// Whether a ConfigMap has that data, with whatever key it has: a job's key is made once, and its
// replicas hold it in memory.
bool HoldsHosts(const ConfigMap& config, const TrainingJob& job, int64_t epoch);
nlohmann::json BuildConfigMap(const TrainingJob& job, int64_t epoch, const std::string& key);

}  // namespace trainyard::control
