// A parameter server as a process: serves until the workers are done, answers /progress, leaves its
// part of the report and of the profile in the job's output folder.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "trainer/job/replica_identity.h"
#include "trainer/job/training_config.h"
#include "trainer/train/stop_request.h"

namespace trainyard::engine {

struct ServerRoleOptions {
  ReplicaIdentity identity;
  TrainingConfig config;
  std::string output = ".";
  int http_port = 0;  // of /progress; 0: any free one
};

// OK when every worker has said goodbye. After a stop request it serves on until then, so that the
// chief can write a checkpoint, for at most three quarters of timeouts.stop; then Cancelled. Other
// errors name port, peer or field.
absl::Status RunServerRole(const ServerRoleOptions& options, StopRequest& stop);

}  // namespace trainyard::engine
