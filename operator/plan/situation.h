// The input of every part of MakePlan.
#pragma once

#include "absl/time/time.h"
#include "operator/plan/observed.h"

namespace trainyard::control {

struct PlanOptions {
  absl::Duration force_delete_after = absl::Seconds(60);      // beyond its grace, of a Terminating pod on a node that is down
  absl::Duration stalled_start_after = absl::Seconds(30);     // a pod that cannot start for so long makes the job Stalled
  absl::Duration stalled_creation_after = absl::Minutes(2);   // so do containers that are still being created
  absl::Duration stalled_progress_after = absl::Minutes(15);  // so does a step that does not move
  absl::Duration retry_taken_after = absl::Seconds(30);       // a child name taken by something else is tried again
  absl::Duration restore_serving_after = absl::Seconds(10);   // an edited Deployment of spec.serve is put back so long after the last write
  bool ask_versions = true;                                   // what serves is asked for its version
  absl::Duration retry_leftovers_after = absl::Seconds(5);    // children of an earlier job of the same name should be gone by then
};

// For the time of one MakePlan: it owns nothing.
struct Situation {
  const TrainingJob& job;
  const Observed& observed;
  const PlanOptions& options;
  const absl::Time now;
  HostLists& hosts;  // remembers what it compares

  // now as status holds it, in whole seconds
  absl::Time Stamp() const { return absl::FromUnixSeconds(absl::ToUnixSeconds(now)); }
};

}  // namespace trainyard::control
