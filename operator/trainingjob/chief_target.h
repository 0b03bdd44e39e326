// Whom the operator asks for a job's progress.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "operator/api/core.h"
#include "operator/api/training_job.h"
#include "operator/progress/progress_fetch.h"

namespace trainyard::control {

// The job's own pod of its reporter while it runs; nothing where it does not, or where the job has
// ended or tells no progress. A pod of that name which another owns says nothing of this job.
std::optional<ProgressTarget> ChiefTarget(const TrainingJob& job, const std::vector<std::shared_ptr<const Pod>>& pods);

}  // namespace trainyard::control
