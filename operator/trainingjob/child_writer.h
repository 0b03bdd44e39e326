// ChildWriter: carries out the part of a plan that concerns a job's children, one API request for
// each.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "operator/base/clock.h"
#include "operator/controller/event_recorder.h"
#include "operator/controller/fan_out.h"
#include "operator/kube/client.h"
#include "operator/plan/plan.h"
#include "operator/trainingjob/applied_servings.h"
#include "operator/trainingjob/child_caches.h"
#include "operator/trainingjob/creation_round.h"
#include "operator/trainingjob/first_look.h"
#include "operator/trainingjob/refusals.h"
#include "operator/trainingjob/seen_keys.h"
#include "operator/trainingjob/taken_names.h"
#include "operator/trainingjob/unwatched_children.h"

namespace trainyard::control {

// Thread-safe. All must outlive it. While the process lives, it remembers for each job: names that
// are taken, refusals of the API server, children that no cache holds, and keys.
class ChildWriter {
 public:
  // A name that is taken is tried again after `retry_taken_after`.
  ChildWriter(Client& client, Clock& clock, ChildCaches& caches, EventRecorder& events, FanOut& fan_out, absl::Duration retry_taken_after);

  // Adds what is remembered of the job to what the caches hold of it.
  void AddMemory(const TrainingJob& job, Children& children);
  // Gives labels back to pods of the job that lost them while no operator ran. It asks for them
  // once, when this process sees the job for the first time. An error: ask again.
  absl::Status LookForLostPods(const TrainingJob& job);
  // Everything of a plan but its status and events. The first error of several, after all were
  // tried. A refusal of the API server is not an error: it is remembered, and the next plan tells
  // of it.
  absl::Status CarryOut(const TrainingJob& job, const Plan& plan);
  // Takes Kueue's finalizer from a pod that is being deleted: its name is its replica's, so that no
  // replacement can come before it is gone.
  absl::Status LetGo(const Pod& pod);
  // Whether the API server refused to create a child of the job the last time.
  bool IsRefused(const TrainingJob& job) { return refusals_.Known(job).has_value(); }
  void Forget(const std::string& job_key);

 private:
  absl::Status MakeServing(const TrainingJob& job, const ServingActions& actions);
  // Remembers the round's refusal in `refusals`; its first other error.
  static absl::Status End(const TrainingJob& job, const CreationRound& round, Refusals& refusals);
  absl::Status Adopt(const TrainingJob& job, const ChildRef& child);
  absl::Status GiveLabelsBack(const TrainingJob& job, const ChildRef& child);
  absl::Status Release(const TrainingJob& job, const ChildRef& child);
  // Sets the child's owner references by a strategic merge patch; `done` is the event of it.
  absl::Status PatchOwners(const TrainingJob& job, const ChildRef& child, const nlohmann::json& owners, const PlannedEvent& done);
  absl::Status Delete(const TrainingJob& job, const Deletion& deletion);
  absl::Status EndGroup(const TrainingJob& job, const ChildRef& child);
  absl::Status UpdateConfig(const TrainingJob& job);
  absl::Status UpdateServing(const TrainingJob& job, bool restores);
  // Of a child that no cache holds.
  absl::Status Ensure(const TrainingJob& job, const ChildRef& child);
  absl::Status Create(const TrainingJob& job, const ChildRef& child);
  // A create met an object of that name.
  absl::Status Examine(const TrainingJob& job, const ChildRef& child);

  Client& client_;
  ChildCaches& caches_;
  EventRecorder& events_;
  FanOut& fan_out_;
  FirstLook first_look_;
  SeenKeys keys_;
  UnwatchedChildren unwatched_;
  Refusals refusals_;
  Refusals serving_refusals_;
  AppliedServings servings_;
  TakenNames taken_;
};

}  // namespace trainyard::control
