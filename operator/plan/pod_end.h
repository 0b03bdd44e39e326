// How the containers of a pod ended, in words. Pure.
#pragma once

#include <optional>
#include <string>

#include "operator/api/core.h"
#include "operator/api/training_job.h"
#include "operator/children/labels.h"

namespace trainyard::control {

// A container that ended with another code than 0. Both pointers are valid as long as the pod.
struct ContainerEnd {
  const ContainerStatus* container = nullptr;
  const Termination* end = nullptr;
  bool main = false;  // the replica's own: only its exit code means what docs/contract.md says
  bool init = false;
};

// The failure that the pod shows now: the main container's, else a sidecar's, else an init
// container's. Else the newest of those after which the kubelet has started a container again.
// Nothing when no container failed.
std::optional<ContainerEnd> LastFailure(const Pod& pod);

// For status.failure.
Failure DescribeFailure(const ReplicaId& id, const Pod& pod);

// How the pod ended, with the last line of what it said: "exit code 1 (Error): ValueError: shapes
// differ", "Evicted: The node was low on memory". Another container than the main one is named,
// `with_command` also the command that shows its log. After OOMKilled the limit to raise is named.
std::string DescribeEnd(const TrainingJob& job, const ReplicaId& id, const Pod& pod, bool with_command = true);

// "init container fetch ended with exit code 2 (Error); COMMAND tells more: 404 Not Found", of a
// pod whose trainer has not started because that init container failed and is tried again. The
// command shows its log where the kubelet tries it again, else status.failure where that is this
// failure. Empty: no init container holds up the pod.
std::string DescribeInitRetry(const TrainingJob& job, const TrainingJobStatus& status, const ReplicaId& id, const Pod& pod);

// The command that tells more of a failure that ends the job: of the pod if that stays, else of
// status.failure.
std::string LookCommand(const TrainingJob& job, const Pod& pod, bool pod_stays);

}  // namespace trainyard::control
