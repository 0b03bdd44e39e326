// Which replicas are recreated, when, and when a job has failed too often. Pure; its memory is
// status.restartRecords, which is written before anything is deleted, so that a failure is counted
// exactly once however often the operator is killed.
//
// Of restarts by the kubelet a pod shows their number and how its main container ended last. The
// restarts that are new since the last look count by that exit code: with kPeerAbsentExitCode they
// spend nothing of backoffLimit.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/plan/observed.h"
#include "operator/plan/replica_state.h"
#include "operator/plan/second_start.h"

namespace trainyard::control {

// A replica waited longer for a peer than the job's deadlines allow: a restart cures it and spends
// nothing of backoffLimit (docs/contract.md).
inline constexpr int kPeerAbsentExitCode = 200;

// The action by runPolicy.exitCodes: the first match, else 1-127 Fail, kPeerAbsentExitCode Ignore,
// and 128 and above Restart.
ExitAction ActionFor(const RunPolicy& policy, int exit_code);

// How long the recreation after `step` recreations in a row waits: 0, 1, 2, 4 … s, at most 5 min.
absl::Duration RecreationDelay(int step);

struct JobFailure {
  std::string reason;  // BackoffLimitExceeded, ReplicaFailed, ExitCode, PodFailurePolicy
  std::string message;
};

struct Restarts {
  std::vector<RestartRecord> records;          // to be stored in status
  std::map<ReplicaId, PodState> states;        // of the wanted replicas that have a pod
  std::set<ReplicaId> counted;                 // their pod has ended and is counted: delete it
  std::map<ReplicaId, absl::Time> not_before;  // when an absent replica may be recreated
  std::set<ReplicaId> ended;                   // of `counted`, and absent ones: counted in this look
  bool all_start_again = false;                // restart_together.h
  bool new_number = false;                     // they do because their number has changed
  int spent = 0;                               // of backoffLimit
  int disruptions = 0;                         // counted now, to be added to status
  std::optional<JobFailure> job_failure;
  std::optional<Failure> first_failure;       // the oldest failure seen now
  std::vector<FailedNode> failed_nodes;       // of the failures that count now, and of pods that their node ended
  std::vector<std::string> restart_notes;     // for events: one for each restart counted now
  std::vector<std::string> disruption_notes;  // and for each disruption
};

// `completed`: replicas that have ended with success earlier. `again`: they too, and start again
// all the same.
Restarts CountRestarts(const TrainingJob& job, const Observed& observed, const std::set<ReplicaId>& completed, const SecondStart& again,
                       absl::Time now);

// The same of a job that has succeeded: nothing is recreated any more, so only the restarts count
// that the kubelet has made already.
Restarts CountAtSuccess(const TrainingJob& job, const Observed& observed, const std::set<ReplicaId>& completed, absl::Time now);

}  // namespace trainyard::control
