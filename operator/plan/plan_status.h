// The part of a plan that says how a job is: phase, conditions, counts and message, and whether
// something holds it up. Pure.
#pragma once

#include <set>
#include <string_view>

#include "operator/plan/actions.h"
#include "operator/plan/restart_policy.h"
#include "operator/plan/situation.h"

namespace trainyard::control {

// Of a job that goes on: sets its phase, conditions, counts and message; returns what is to be
// told, and when to look again. `children_missing`: some are to be made, now or when the API server
// is asked again.
Plan Describe(TrainingJobStatus& status, const Situation& situation, const std::set<ReplicaId>& completed, const Restarts& restarts,
              bool children_missing);

// Of a job that ends now, with phase Succeeded or Failed and `condition` for it.
void DescribeEnd(TrainingJobStatus& status, JobPhase phase, std::string_view condition, std::string_view reason, const std::string& message,
                 absl::Time stamp);

// Of a job that had ended before: how it ended stays; replicas that end later are counted as they
// end.
void CountAfterEnd(TrainingJobStatus& status, const TrainingJob& job, const Observed& observed);

// Of a job that is being deleted while finalizers keep it: what is left of it. Nothing of it is
// made again.
void DescribeDeletion(TrainingJobStatus& status, const TrainingJob& job, const Observed& observed, absl::Time stamp);

// Of a job whose pods are all being stopped: what is left of them.
void CountWhileStopping(TrainingJobStatus& status, const Situation& situation);

}  // namespace trainyard::control
