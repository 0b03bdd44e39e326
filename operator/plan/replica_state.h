// A replica's state, read from its pod. Pure.
#pragma once

#include <optional>
#include <string>

#include "operator/api/core.h"
#include "operator/api/training_job.h"
#include "operator/children/labels.h"

namespace trainyard::control {

enum class PodState : uint8_t {
  kWaiting,    // not ready yet, or not ready again
  kReady,      // runs and is ready
  kCompleted,  // container 0 ended with success, whatever sidecars do
  kFailed,     // the application failed, and the kubelet does not restart it
  kDisrupted,  // evicted, preempted, lost with its node, or deleted from outside
};

// Of container 0 where it tells, else of the pod's phase. A Terminating pod that had not completed counts as disrupted: what the operator
// itself deletes is never asked about.
PodState StateOf(const Pod& pod, RestartPolicy policy);

// Exit code of the application: container 0's, or that of the first container that failed; nothing when the pod does not tell.
std::optional<int> ExitCodeOf(const Pod& pod);

// How container 0 ended the last time, also if the kubelet has restarted it since; nothing when it never ended.
std::optional<int> LastExitCode(const Pod& pod);

// Restarts by the kubelet, of all containers.
int KubeletRestarts(const Pod& pod);

// Container 0 has failed and waits for the kubelet to restart it.
bool AwaitsKubeletRestart(const Pod& pod, RestartPolicy policy);

// A container of the pod failed, now or before its last restart.
bool ShowsFailure(const Pod& pod);

// For status.failure: the failure that the pod shows now, or its container's last one.
Failure DescribeFailure(const ReplicaId& id, const Pod& pod);

// How the pod ended, the last line of what it said at its end: "exit code 1 (Error): ValueError: shapes differ", "Evicted: The node was low
// on memory"; after OOMKilled which limit to raise.
std::string DescribeEnd(const TrainingJob& job, const ReplicaId& id, const Pod& pod);

}  // namespace trainyard::control
