// MakePlan: everything that is to happen to a job, decided from what is known of it. Pure: no
// clock, no I/O, no memory of its own.
#pragma once

#include "absl/time/time.h"
#include "operator/api/training_job.h"
#include "operator/plan/actions.h"
#include "operator/plan/observed.h"
#include "operator/plan/situation.h"

namespace trainyard::control {

// `job` is defaulted and validated: its `problems` are final (api/validation.h). A job of another
// controller gets an empty plan. The plan of a job that is being deleted has a status at most.
Plan MakePlan(const TrainingJob& job, const Observed& observed, absl::Time now, const PlanOptions& options = {});

}  // namespace trainyard::control
