// The pod of a replica: the user's template with what the replica needs put in.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "operator/children/labels.h"

namespace trainyard::control {

// The main container of the template (api/main_container.h) gets environment, mounts and port; all
// else passes through. A value that the template sets wins.
nlohmann::json BuildPod(const TrainingJob& job, const ReplicaId& id);

// The parts of the role's template that stood in the way of an injection, such as "env
// TRAINYARD_ROLE"; for an event.
std::vector<std::string> TemplateClashes(const TrainingJob& job, Role role);

// The image of containers that name none: spec.image, or the default trainer image as the job
// started. Empty where there is neither.
const std::string& ImageOf(const TrainingJob& job);

// Where Trainyard replicas write by default: <storage.mountPath>/<job name>, so that jobs can share
// a claim.
std::string OutputFolder(const TrainingJob& job);

// Of the trainer image's user (Dockerfile.trainer).
inline constexpr int kTrainerGroup = 65532;
// Of a container that runs the trainer: what the restricted Pod Security Standard asks for.
nlohmann::json TrainerSecurityContext();

// Whether pods get an emptyDir for their output: nothing outlives them, which deserves a warning.
bool OutputIsEphemeral(const TrainingJob& job);

}  // namespace trainyard::control
