// The input of every part of MakePlan.
#pragma once

#include "absl/time/time.h"
#include "operator/plan/observed.h"
#include "operator/plan/plan.h"

namespace trainyard::control {

// For the time of one MakePlan: it owns nothing.
struct Situation {
  const TrainingJob& job;
  const Observed& observed;
  const PlanOptions& options;
  const absl::Time now;

  // now as status holds it, in whole seconds
  absl::Time Stamp() const { return absl::FromUnixSeconds(absl::ToUnixSeconds(now)); }
};

}  // namespace trainyard::control
