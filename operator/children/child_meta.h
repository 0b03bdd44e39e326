// metadata that every child carries: name, namespace, labels and the owner reference.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "operator/children/labels.h"

namespace trainyard::control {

// Without a replica (the ConfigMap, the job-wide service) there are no role and index labels.
nlohmann::json ChildLabelsJson(const TrainingJob& job, const std::optional<ReplicaId>& id);
// A list of one: the job as controller, blocking its foreground deletion.
nlohmann::json OwnerReferences(const TrainingJob& job);
nlohmann::json ChildMeta(const TrainingJob& job, std::string name, const std::optional<ReplicaId>& id);

}  // namespace trainyard::control
