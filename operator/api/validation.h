// Checks beyond the CRD's schema: values that the schema accepts and that make no sense. A job with
// any such error gets condition Invalid and no children.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "operator/api/defaults.h"
#include "operator/api/training_job.h"

namespace trainyard::control {

// Every error of a defaulted job (its `problems` first), in the order of the spec. Empty: the job
// can run.
std::vector<FieldError> Validate(const TrainingJob& job);

// FromJson, ApplyDefaults, and `problems` from Validate: how jobs enter the cache, so that this is
// done once for each version.
absl::StatusOr<TrainingJob> DecodeJob(const DefaultOptions& options, const nlohmann::json& object);

// All errors on one line for a condition's message: "spec.worker.replicas: … ; spec.chief: …", cut
// at 1,024 bytes.
std::string Describe(const std::vector<FieldError>& errors);

}  // namespace trainyard::control
