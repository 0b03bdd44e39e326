#include "operator/plan/replica_state.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "operator/api/json_read.h"
#include "operator/api/text.h"

namespace trainyard::control {
namespace {

constexpr size_t kMaxTail = 1024;
constexpr size_t kMaxLine = 512;

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
  for (const ContainerStatus& container : pod.init_containers) {
    if (container.terminated && container.terminated->exit_code != 0) return &*container.terminated;
  }
  return nullptr;
}

// The last line that says something, cut at its end.
std::string LastLine(std::string_view text) {
  const size_t end = text.find_last_not_of(" \t\r\n");
  if (end == std::string_view::npos) return "";
  text = text.substr(0, end + 1);
  const size_t before = text.find_last_of('\n');
  return Head(before == std::string_view::npos ? text : text.substr(before + 1), kMaxLine);
}

// Which limit container 0 ran into.
std::string MemoryAdvice(const TrainingJob& job, const ReplicaId& id) {
  const ReplicaSpec* replica = job.spec.Find(id.role);
  const std::string role = fmt::format("spec.{}", Name(id.role));
  const auto limit = [](const nlohmann::json& resources) { return json_read::Get(json_read::Get(resources, "limits"), "memory"); };
  const auto parsed = [](const std::string& text) { return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false); };
  std::string field = role + ".resources.limits.memory";
  nlohmann::json memory;
  if (replica != nullptr) {
    const nlohmann::json pod_template = parsed(replica->pod_template);
    const nlohmann::json& containers = json_read::Get(json_read::Get(pod_template, "spec"), "containers");
    const nlohmann::json* own = containers.is_array() && !containers.empty() ? json_read::Find(containers[0], "resources") : nullptr;
    if (own != nullptr) field = role + ".template.spec.containers[0].resources.limits.memory";
    memory = limit(own != nullptr ? *own : parsed(replica->resources));
  }
  if (memory.is_null()) {
    return fmt::format("its node ran out of memory: set {}.resources.requests.memory to the need of a replica", role);
  }
  return fmt::format("it needs more memory than {} allows: found {}, raise it", field,
                     memory.is_string() ? memory.get<std::string>() : memory.dump());
}

// Also of a container that the kubelet has restarted since.
const Termination* LastFailure(const Pod& pod) {
  if (const Termination* failed = FailedTermination(pod)) return failed;
  const ContainerStatus* main = pod.Main();
  if (main != nullptr && main->last_terminated && main->last_terminated->exit_code != 0) return &*main->last_terminated;
  for (const ContainerStatus& container : pod.containers) {
    if (container.last_terminated && container.last_terminated->exit_code != 0) return &*container.last_terminated;
  }
  for (const ContainerStatus& container : pod.init_containers) {
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

std::string DescribeEnd(const TrainingJob& job, const ReplicaId& id, const Pod& pod) {
  if (pod.meta.deletion_time && !pod.disruption_target) return "it was deleted from outside";
  if (pod.disruption_target || IsDisruptionReason(pod.reason)) {
    if (pod.reason.empty()) return pod.disruption.empty() ? "disruption" : pod.disruption;
    return pod.message.empty() ? pod.reason : pod.reason + ": " + Tail(pod.message, kMaxTail);
  }
  const Termination* end = LastFailure(pod);
  if (end == nullptr) return pod.reason.empty() ? "its pod failed" : fmt::format("{}: {}", pod.reason, Tail(pod.message, kMaxTail));
  std::string text = fmt::format("exit code {}", end->exit_code);
  if (!end->reason.empty()) text += fmt::format(" ({})", end->reason);
  if (end->reason == "OOMKilled") return text + "; " + MemoryAdvice(job, id);
  if (const std::string line = LastLine(end->message); !line.empty()) text += ": " + line;
  return text;
}

}  // namespace trainyard::control
