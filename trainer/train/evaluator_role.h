// The evaluator as a process: evaluates the job's checkpoints beside the training, answers
// /progress, writes the TensorBoard run `eval`.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "trainer/backend/backend.h"
#include "trainer/base/clock.h"
#include "trainer/job/replica_identity.h"
#include "trainer/job/training_config.h"
#include "trainer/train/stop_request.h"

namespace trainyard::engine {

struct EvaluatorRoleOptions {
  ReplicaIdentity identity;
  TrainingConfig config;
  std::string output = ".";  // the same folder as the chief's: checkpoints and results pass through it
  int http_port = 0;         // of /progress; 0: any free one
};

// OK when the chief has finished and its last checkpoint was evaluated. Cancelled after a stop
// request. Other errors name file or field.
absl::Status RunEvaluatorRole(const EvaluatorRoleOptions& options, Backend& backend, StopRequest& stop, Clock& clock);

}  // namespace trainyard::engine
