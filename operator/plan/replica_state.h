// A replica's state, read from its pod. Pure.
#pragma once

#include <optional>
#include <string>

#include "operator/api/core.h"
#include "operator/api/training_job.h"

namespace trainyard::control {

enum class PodState : uint8_t {
  kWaiting,    // not ready yet, or not ready again
  kReady,      // runs and is ready
  kCompleted,  // the main container ended with success, whatever sidecars do
  kFailed,     // the application failed, and the kubelet does not restart it
  kDisrupted,  // evicted, preempted, lost with its node or its device, or deleted from outside
};

// The kubelet evicted the pod because it went beyond a limit of its own: that of its ephemeral
// storage, or the size limit of an emptyDir. So it would again, on any node.
bool WentBeyondItsLimit(const Pod& pod);

// Whether kubelet, scheduler or a controller ended the pod for reasons of their own.
bool WasDisrupted(const Pod& pod);

// Of the main container where it tells, else of the pod's phase. A Terminating pod that had not
// completed counts as disrupted: what the operator itself deletes is never asked about. So does a
// pod that failed with an unhealthy device, whatever its exit code. The kubelet would start its
// container again with the same device.
PodState StateOf(const Pod& pod, RestartPolicy policy);

// Exit code of the application, the main container, when that failed; nothing when another
// container failed, or the pod does not tell.
std::optional<int> ExitCodeOf(const Pod& pod);

// How the main container ended the last time, also if the kubelet has restarted it since; nothing
// when it never ended.
std::optional<int> LastExitCode(const Pod& pod);

// Restarts by the kubelet, of all containers.
int KubeletRestarts(const Pod& pod);

// The main container has failed and waits for the kubelet to restart it.
bool AwaitsKubeletRestart(const Pod& pod, RestartPolicy policy);

}  // namespace trainyard::control
