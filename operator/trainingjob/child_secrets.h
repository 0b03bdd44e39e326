// Draws the random part of a child that is about to be created: the job's key, certificates and ssh
// keys.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "operator/children/child_kinds.h"

namespace trainyard::control {

// `known_key`: the job's key where it was made before; "": a new one is made where the child holds
// it. Internal when there is no randomness for ssh keys.
absl::StatusOr<ChildSecrets> DrawSecrets(const TrainingJob& job, ChildKind kind, const std::string& known_key);

}  // namespace trainyard::control
