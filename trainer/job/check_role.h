// Whether a replica that was started by hand has a place in its job.
#pragma once

#include "absl/status/status.h"
#include "trainer/job/replica_identity.h"
#include "trainer/job/training_config.h"

namespace trainyard::engine {

// InvalidArgument names the flag, as the flags of the TensorFlow tutorials have it, where role and
// host lists do not fit the job's strategy: a server that no worker would call, workers of strategy
// local, which would each train alone on a part of the data, or a worker without servers. `launch`
// checks the same of a job's replicas. The API server does for the other strategies.
absl::Status CheckRole(const TrainingConfig& config, const ReplicaIdentity& identity);

}  // namespace trainyard::engine
