// The pod of a replica: the user's template with what the replica needs put in.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "operator/trainingjob/labels.h"

namespace trainyard::control {

// Container 0 of the template gets environment, mounts and port; all else passes through. A value that the template sets wins.
nlohmann::json BuildPod(const TrainingJob& job, const ReplicaId& id);

// What of the role's template stood in the way of an injection, such as "env TRAINYARD_ROLE"; for an event.
std::vector<std::string> TemplateClashes(const TrainingJob& job, Role role);

// Whether pods get an emptyDir for their output: nothing outlives them, which deserves a warning.
bool OutputIsEphemeral(const TrainingJob& job);

// Whether the job needs the secret with ssh keys.
bool NeedsSshKeys(const TrainingJob& job);

}  // namespace trainyard::control
