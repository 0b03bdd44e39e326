// When a job has succeeded. Pure.
#pragma once

#include <set>

#include "operator/children/labels.h"

namespace trainyard::control {

// Chief: the chief (worker 0 without one) has completed. AllWorkers: every worker, and the chief if
// there is one.
bool HasSucceeded(const TrainingJob& job, const std::set<ReplicaId>& completed);

}  // namespace trainyard::control
