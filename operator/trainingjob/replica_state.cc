#include "operator/trainingjob/replica_state.h"

#include <fmt/format.h>

#include <array>

#include "operator/api/text.h"

namespace trainyard::control {
namespace {

constexpr size_t kMaxTail = 1024;

// Reasons of status.reason with which kubelet, scheduler and controllers end a pod for their own ends.
bool IsDisruptionReason(const std::string& reason) {
  static constexpr std::array<std::string_view, 9> kReasons = {"Evicted",    "Preempting",   "Preempted",
                                                               "NodeLost",   "NodeShutdown", "Shutdown",
                                                               "Terminated", "NodeAffinity", "UnexpectedAdmissionError"};
  return std::find(kReasons.begin(), kReasons.end(), reason) != kReasons.end() || reason.starts_with("OutOf");
}

bool KubeletRestartsContainers(RestartPolicy policy) { return policy == RestartPolicy::kAlways || policy == RestartPolicy::kOnFailure; }

const Termination* FailedTermination(const Pod& pod) {
  const ContainerStatus* main = pod.Main();
  if (main != nullptr && main->terminated && main->terminated->exit_code != 0) return &*main->terminated;
  for (const ContainerStatus& container : pod.containers) {
    if (container.terminated && container.terminated->exit_code != 0) return &*container.terminated;
  }
  return nullptr;
}

// Also what the kubelet has restarted since.
const Termination* LastFailure(const Pod& pod) {
  if (const Termination* failed = FailedTermination(pod)) return failed;
  const ContainerStatus* main = pod.Main();
  if (main != nullptr && main->last_terminated && main->last_terminated->exit_code != 0) return &*main->last_terminated;
  for (const ContainerStatus& container : pod.containers) {
    if (container.last_terminated && container.last_terminated->exit_code != 0) return &*container.last_terminated;
  }
  return nullptr;
}

}  // namespace

PodState StateOf(const Pod& pod, RestartPolicy policy) {
  const ContainerStatus* main = pod.Main();
  const bool main_ended = main != nullptr && main->terminated.has_value();
  if (pod.phase == PodPhase::kSucceeded) return PodState::kCompleted;
  if (main_ended && main->terminated->exit_code == 0 && policy != RestartPolicy::kAlways) return PodState::kCompleted;
  if (pod.meta.deletion_time) return PodState::kDisrupted;
  const bool failed = pod.phase == PodPhase::kFailed;
  const bool main_failed = main_ended && !KubeletRestartsContainers(policy);
  if (failed || main_failed) {
    return pod.disruption_target || IsDisruptionReason(pod.reason) ? PodState::kDisrupted : PodState::kFailed;
  }
  return pod.phase == PodPhase::kRunning && pod.ready ? PodState::kReady : PodState::kWaiting;
}

std::optional<int> ExitCodeOf(const Pod& pod) {
  const Termination* failed = FailedTermination(pod);
  return failed == nullptr ? std::nullopt : std::optional<int>(failed->exit_code);
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

bool ShowsFailure(const Pod& pod) { return LastFailure(pod) != nullptr; }

Failure DescribeFailure(const ReplicaId& id, const Pod& pod) {
  Failure failure;
  failure.replica = Name(id);
  failure.pod = pod.meta.name;
  failure.node = pod.node;
  const Termination* end = LastFailure(pod);
  if (end == nullptr) {
    failure.reason = pod.reason.empty() ? "PodFailed" : pod.reason;
    failure.message = Tail(pod.message, kMaxTail);
    return failure;
  }
  failure.exit_code = end->exit_code;
  if (end->signal > 0) {
    failure.signal = end->signal;
  } else if (end->exit_code > 128 && end->exit_code < 128 + 65) {
    failure.signal = end->exit_code - 128;
  }
  failure.reason = end->reason.empty() ? "Error" : end->reason;
  failure.message = Tail(end->message, kMaxTail);
  return failure;
}

std::string DescribeEnd(const Pod& pod) {
  if (pod.meta.deletion_time && !pod.disruption_target) return "it was deleted from outside";
  if (pod.disruption_target || IsDisruptionReason(pod.reason)) {
    const std::string reason = pod.reason.empty() ? "disruption" : pod.reason;
    return pod.message.empty() ? reason : reason + ": " + Tail(pod.message, kMaxTail);
  }
  const Termination* end = LastFailure(pod);
  if (end == nullptr) return pod.reason.empty() ? "its pod failed" : fmt::format("{}: {}", pod.reason, Tail(pod.message, kMaxTail));
  return end->reason.empty() ? fmt::format("exit code {}", end->exit_code) : fmt::format("exit code {} ({})", end->exit_code, end->reason);
}

std::optional<Obstacle> StartObstacle(const Pod& pod) {
  if (pod.meta.deletion_time) return std::nullopt;
  if (!pod.unschedulable.empty()) return Obstacle{"Unschedulable", pod.unschedulable};
  static constexpr std::array<std::string_view, 8> kReasons = {"ImagePullBackOff",  "ErrImagePull",         "InvalidImageName",
                                                               "ErrImageNeverPull", "CreateContainerError", "CreateContainerConfigError",
                                                               "RunContainerError", "ImageInspectError"};
  for (const ContainerStatus& container : pod.containers) {
    if (std::find(kReasons.begin(), kReasons.end(), container.waiting_reason) != kReasons.end()) {
      return Obstacle{container.waiting_reason, container.waiting_message};
    }
  }
  return std::nullopt;
}

}  // namespace trainyard::control
