// What a child is to the API server: its resource, and the object that a create sends.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "operator/kube/resource.h"
#include "operator/trainingjob/observed.h"

namespace trainyard::control {

// PodGroups are those of the job's gang scheduler.
const Resource& ResourceOf(ChildKind kind, const TrainingJob& job);

// Internal when there is no randomness for keys.
absl::StatusOr<nlohmann::json> BuildChild(const TrainingJob& job, const ChildRef& child);

}  // namespace trainyard::control
