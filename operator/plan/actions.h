// A plan: everything that is to happen to a job, as a value.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "operator/api/training_job.h"
#include "operator/children/child_ref.h"
#include "operator/plan/host_lists.h"
#include "operator/plan/status_timing.h"

namespace trainyard::control {

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

// What is made for spec.serve. The API server's refusal of it is remembered by itself, as nothing
// of it holds up the training.
struct ServingActions {
  std::vector<ChildRef> creations;
  bool update = false;    // the Deployment's spec is written again
  bool restores = false;  // because somebody has edited it
  friend bool operator==(const ServingActions&, const ServingActions&) = default;
};

// Carried out in this order: status (but for kAfterChildren), adoptions, labels given back,
// releases, deletions, ends of groups, ConfigMap, `ensure`, creations, `serving`, events. When the
// status cannot be written, nothing after it happens. Events tell of the status, so they wait until
// it is written.
struct Plan {
  std::optional<TrainingJobStatus> status;  // only when it differs from the job's
  StatusTiming status_timing = StatusTiming::kSettled;
  std::vector<ChildRef> adopt;
  std::vector<ChildRef> relabel;
  std::vector<ChildRef> release;
  std::vector<Deletion> deletions;
  // An ended pod of an ended job for whose group Kueue still holds room: the group is over.
  std::vector<ChildRef> end_group;
  bool update_config = false;
  // Children that no cache holds and that are not known to be as they should: looked up, then put
  // right, or made where there is none.
  std::vector<ChildRef> ensure;
  std::vector<ChildRef> creations;  // without uid: kind, name and replica; what pods mount comes before them, servers before workers
  bool withheld = false;            // children are missing, but the API server is not to be asked again yet
  ServingActions serving;
  bool delete_job = false;
  std::vector<PlannedEvent> events;
  std::optional<HostListsSeen> hosts_seen;  // for the next look: Children::hosts_seen
  // The job is looked at again at this time, even if nothing happens.
  std::optional<absl::Time> requeue_at;

  bool Empty() const;
  // Appends another part of the plan; its status is not looked at.
  void Add(Plan part);
  void AddEvent(bool warning, std::string_view reason, std::string note);
  // At the earliest of all such times.
  void RequeueAt(absl::Time time);
};

}  // namespace trainyard::control
