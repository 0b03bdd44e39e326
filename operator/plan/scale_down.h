// Pods that a scale-down ends while their replicas are wanted again. Pure.
#pragma once

#include "operator/api/core.h"
#include "operator/api/training_job.h"
#include "operator/children/labels.h"

namespace trainyard::control {

// Whether this pod of a replica that the spec wants is still ending since a scale-down: nothing has
// disrupted the replica, and the pod completes it by no exit code. The last status did not want the
// replica; later looks know the pod by a restart record that has counted its end without a step of
// backoff.
bool EndsByScaleDown(const TrainingJob& job, const ReplicaId& id, const Pod& pod);

}  // namespace trainyard::control
