#include "operator/plan/replica_state.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace trainyard::control {
namespace {

bool KubeletRestartsContainers(RestartPolicy policy) { return policy == RestartPolicy::kAlways || policy == RestartPolicy::kOnFailure; }

bool IsDisruptionReason(const std::string& reason) {
  // The last two: a device, or its place beside processor and memory, went between the scheduler's
  // choice and the kubelet's look. So did what "OutOfcpu" or "OutOfnvidia.com/gpu" names.
  static constexpr std::array<std::string_view, 10> kReasons = {"Evicted",
                                                                "Preempting",
                                                                "Preempted",
                                                                "NodeLost",
                                                                "NodeShutdown",
                                                                "Shutdown",
                                                                "Terminated",
                                                                "NodeAffinity",
                                                                "UnexpectedAdmissionError",
                                                                "TopologyAffinityError"};
  return std::find(kReasons.begin(), kReasons.end(), reason) != kReasons.end() || reason.starts_with("OutOf");
}

}  // namespace

// A kubelet that is short of something itself says "The node was low on resource: memory", and sets
// DisruptionTarget since Kubernetes 1.26.
bool WentBeyondItsLimit(const Pod& pod) {
  return pod.reason == "Evicted" && !pod.disruption_target && !pod.message.empty() && !pod.message.starts_with("The node ");
}

bool WasDisrupted(const Pod& pod) { return pod.disruption_target || (IsDisruptionReason(pod.reason) && !WentBeyondItsLimit(pod)); }

PodState StateOf(const Pod& pod, RestartPolicy policy) {
  const ContainerStatus* main = pod.Main();
  const bool main_ended = main != nullptr && main->terminated.has_value();
  if (pod.phase == PodPhase::kSucceeded) return PodState::kCompleted;
  if (main_ended && main->terminated->exit_code == 0 && policy != RestartPolicy::kAlways) return PodState::kCompleted;
  if (pod.meta.deletion_time) return PodState::kDisrupted;
  const bool failed = pod.phase == PodPhase::kFailed;
  const bool main_failed = main_ended && !KubeletRestartsContainers(policy);
  const bool disrupted = WasDisrupted(pod) || !pod.unhealthy_device.empty();
  if (failed || main_failed) return disrupted ? PodState::kDisrupted : PodState::kFailed;
  if (!pod.unhealthy_device.empty() && AwaitsKubeletRestart(pod, policy)) return PodState::kDisrupted;
  return pod.phase == PodPhase::kRunning && pod.ready ? PodState::kReady : PodState::kWaiting;
}

std::optional<int> ExitCodeOf(const Pod& pod) {
  const ContainerStatus* main = pod.Main();
  const bool failed = main != nullptr && main->terminated && main->terminated->exit_code != 0;
  return failed ? std::optional<int>(main->terminated->exit_code) : std::nullopt;
}

std::optional<int> LastExitCode(const Pod& pod) {
  const ContainerStatus* main = pod.Main();
  if (main != nullptr && main->terminated) return main->terminated->exit_code;
  return main != nullptr && main->last_terminated ? std::optional<int>(main->last_terminated->exit_code) : std::nullopt;
}

int KubeletRestarts(const Pod& pod) {
  int restarts = pod.init_restarts;
  for (const ContainerStatus& container : pod.containers) restarts += container.restart_count;
  return restarts;
}

bool AwaitsKubeletRestart(const Pod& pod, RestartPolicy policy) {
  const ContainerStatus* main = pod.Main();
  if (main == nullptr || !KubeletRestartsContainers(policy) || pod.phase == PodPhase::kFailed || pod.meta.deletion_time) return false;
  if (main->terminated) return main->terminated->exit_code != 0 || policy == RestartPolicy::kAlways;
  return main->waiting_reason == "CrashLoopBackOff";
}

}  // namespace trainyard::control
