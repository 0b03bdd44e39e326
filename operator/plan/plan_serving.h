// The part of a plan that makes what serves a job's checkpoints, spec.serve, and tells of it. Pure.
#pragma once

#include "operator/plan/actions.h"
#include "operator/plan/situation.h"

namespace trainyard::control {

// `status` as it is to be written: gets `serving` and the condition Serving. Nothing that goes
// wrong here changes anything else of the job. Of a job that is Invalid, or whose edited spec.serve
// makes no sense, all stays as it is.
Plan PlanServing(const Situation& situation, TrainingJobStatus& status);

}  // namespace trainyard::control
