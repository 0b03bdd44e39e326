// MakePlan: everything that is to happen to a job, decided from what is known of it. Pure: no
// clock, no I/O, no memory of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "operator/api/training_job.h"
#include "operator/plan/observed.h"
#include "operator/plan/status_timing.h"

namespace trainyard::control {

struct PlanOptions {
  absl::Duration force_delete_after = absl::Seconds(60);      // beyond its grace, of a Terminating pod on a node that is down
  absl::Duration stalled_start_after = absl::Seconds(30);     // a pod that cannot start for so long makes the job Stalled
  absl::Duration stalled_creation_after = absl::Minutes(2);   // so do containers that are still being created
  absl::Duration stalled_progress_after = absl::Minutes(15);  // so does a step that does not move
  absl::Duration retry_taken_after = absl::Seconds(30);       // a child name taken by something else is tried again
  absl::Duration retry_leftovers_after = absl::Seconds(5);    // children of an earlier job of the same name should be gone by then
};

struct Deletion {
  ChildRef child;      // without uid where no cache holds it: it is looked up first, and goes only if it is the job's
  bool force = false;  // without waiting for the node
  friend bool operator==(const Deletion&, const Deletion&) = default;
};

struct PlannedEvent {
  bool warning = false;
  std::string reason;
  std::string note;
  friend bool operator==(const PlannedEvent&, const PlannedEvent&) = default;
};

// Carried out in this order: status (but for kAfterChildren), adoptions, labels given back,
// releases, deletions, ConfigMap, `ensure`, creations, events. When the status cannot be written,
// nothing after it happens. Events tell of the status, so they wait until it is written.
struct Plan {
  std::optional<TrainingJobStatus> status;  // only when it differs from the job's
  StatusTiming status_timing = StatusTiming::kSettled;
  std::vector<ChildRef> adopt;
  std::vector<ChildRef> relabel;
  std::vector<ChildRef> release;
  std::vector<Deletion> deletions;
  bool update_config = false;
  // Children that no cache holds and that are not known to be as they should: looked up, then put
  // right, or made where there is none.
  std::vector<ChildRef> ensure;
  std::vector<ChildRef> creations;  // without uid: kind, name and replica; what pods mount comes before them, servers before workers
  bool withheld = false;            // children are missing, but the API server is not to be asked again yet
  bool delete_job = false;
  std::vector<PlannedEvent> events;
  // The job is looked at again at this time, even if nothing happens.
  std::optional<absl::Time> requeue_at;

  bool Empty() const;
  // Appends another part of the plan; its status is not looked at.
  void Add(Plan part);
  void AddEvent(bool warning, std::string_view reason, std::string note);
  // At the earliest of all such times.
  void RequeueAt(absl::Time time);
};

// `job` is defaulted and validated: its `problems` are final (api/validation.h). A job of another
// controller, or a job that is being deleted, gets an empty plan.
Plan MakePlan(const TrainingJob& job, const Observed& observed, absl::Time now, const PlanOptions& options = {});

}  // namespace trainyard::control
