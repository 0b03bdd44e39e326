#include "operator/api/core.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>

#include "operator/api/json_read.h"
#include "operator/api/main_container.h"
#include "operator/api/text.h"
#include "operator/base/status_macros.h"

namespace trainyard::control {
namespace {

constexpr size_t kMaxPodMessage = 2048;  // what the kubelet keeps of a termination message
constexpr size_t kMaxConditions = 64;
constexpr size_t kMaxDeviceName = 256;
constexpr size_t kMaxGateNames = 256;
constexpr int kMaxRestarts = 1'000'000;

PodPhase PhaseFromName(const std::string& name) {
  if (name == "Running") return PodPhase::kRunning;
  if (name == "Succeeded") return PodPhase::kSucceeded;
  if (name == "Failed") return PodPhase::kFailed;
  if (name == "Unknown") return PodPhase::kUnknown;
  return PodPhase::kPending;
}

int RestartCount(const nlohmann::json& status) { return std::clamp(json_read::Int(status, "restartCount"), 0, kMaxRestarts); }

BoxedOptional<Termination> ReadTermination(const nlohmann::json& state) {
  const nlohmann::json* terminated = json_read::Find(state, "terminated");
  if (terminated == nullptr) return std::nullopt;
  Termination result;
  result.exit_code = json_read::Int(*terminated, "exitCode");
  result.signal = json_read::Int(*terminated, "signal");
  result.reason = json_read::String(*terminated, "reason");
  result.message = json_read::String(*terminated, "message");
  result.message = Tail(result.message, kMaxPodMessage);
  result.started_at = json_read::Time(*terminated, "startedAt");
  result.finished_at = json_read::Time(*terminated, "finishedAt");
  return result;
}

ContainerStatus ReadContainer(const nlohmann::json& status) {
  ContainerStatus container;
  container.name = json_read::String(status, "name");
  container.ready = json_read::Bool(status, "ready");
  container.restart_count = RestartCount(status);
  const nlohmann::json& state = json_read::Get(status, "state");
  if (const nlohmann::json* running = json_read::Find(state, "running")) {
    container.running_since = json_read::OptionalTime(*running, "startedAt");
  }
  const nlohmann::json& waiting = json_read::Get(state, "waiting");
  container.waiting_reason = json_read::String(waiting, "reason");
  container.waiting_message = Head(json_read::String(waiting, "message"), kMaxPodMessage);
  container.terminated = ReadTermination(state);
  container.last_terminated = ReadTermination(json_read::Get(status, "lastState"));
  return container;
}

// Since Kubernetes 1.36 by default.
// https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/#device-plugin-and-unhealthy-devices
std::string UnhealthyDevice(const nlohmann::json& status) {
  const nlohmann::json& allocated = json_read::Get(status, "allocatedResourcesStatus");
  if (!allocated.is_array()) return "";
  for (const nlohmann::json& resource : allocated) {
    const nlohmann::json& devices = json_read::Get(resource, "resources");
    if (!devices.is_array()) continue;
    for (const nlohmann::json& device : devices) {
      if (json_read::String(device, "health") != "Unhealthy") continue;
      return Head(json_read::String(resource, "name") + " " + json_read::String(device, "resourceID"), kMaxDeviceName);
    }
  }
  return "";
}

// The names side by side: "example.com/quota, kueue.x-k8s.io/admission".
std::string GatesOf(const nlohmann::json& spec) {
  const nlohmann::json& gates = json_read::Get(spec, "schedulingGates");
  std::string names;
  if (!gates.is_array()) return names;
  for (const nlohmann::json& gate : gates) {
    if (names.size() > kMaxGateNames) break;
    names += (names.empty() ? "" : ", ") + json_read::String(gate, "name", "?");
  }
  return Head(names, kMaxGateNames);
}

void ReadConditions(const nlohmann::json& status, Pod& pod) {
  const nlohmann::json& conditions = json_read::Get(status, "conditions");
  if (!conditions.is_array()) return;
  for (const nlohmann::json& condition : conditions) {
    const std::string type = json_read::String(condition, "type");
    const std::string value = json_read::String(condition, "status");
    const bool is_true = value == "True";
    if (!IsUsualCondition(type) && pod.conditions.size() < kMaxConditions) pod.conditions.push_back({type, value});
    if (type == "Ready") pod.ready = is_true;
    if ((type == "DisruptionTarget" || type == "TerminationTarget") && is_true) {
      pod.disruption_target = true;
      pod.disruption = json_read::String(condition, "reason", "disruption");
      const std::string message = json_read::String(condition, "message");
      if (!message.empty()) pod.disruption += ": " + Head(message, kMaxPodMessage);
    }
    if (type == "PodScheduled") pod.scheduler_spoke = true;
    if (type == "PodScheduled" && !is_true && json_read::String(condition, "reason") == "Unschedulable") {
      pod.unschedulable = json_read::String(condition, "message", "no node fits");
    }
  }
}

}  // namespace

std::string_view PodPhaseName(PodPhase phase) {
  switch (phase) {
    case PodPhase::kPending:
      return "Pending";
    case PodPhase::kRunning:
      return "Running";
    case PodPhase::kSucceeded:
      return "Succeeded";
    case PodPhase::kFailed:
      return "Failed";
    case PodPhase::kUnknown:
      break;
  }
  return "Unknown";
}

bool IsUsualCondition(std::string_view type) {
  static constexpr std::array<std::string_view, 5> kUsual = {"PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady",
                                                             "Ready"};
  return std::ranges::count(kUsual, type) > 0;
}

const ContainerStatus* Pod::Main() const {
  for (const ContainerStatus& container : containers) {
    if (main_container.empty() || container.name == main_container) return &container;
  }
  return nullptr;
}

absl::StatusOr<Pod> Pod::FromJson(const nlohmann::json& object) {
  Pod pod;
  TY_ASSIGN_OR_RETURN(pod.meta, MetaFromJson(object));
  const nlohmann::json& spec = json_read::Get(object, "spec");
  pod.node = json_read::String(spec, "nodeName");
  pod.scheduler = json_read::String(spec, "schedulerName");
  pod.gates = GatesOf(spec);
  pod.kueue_queue = json_read::String(json_read::Get(json_read::Get(object, "metadata"), "labels"), kKueueQueueLabel);
  const nlohmann::json& containers = json_read::Get(spec, "containers");
  if (containers.is_array() && !containers.empty()) {
    const auto& main = containers[MainContainerIndex(object)];
    pod.main_container = json_read::String(main, "name");
    pod.main_image = json_read::String(main, "image");
  }
  const nlohmann::json& status = json_read::Get(object, "status");
  pod.phase = PhaseFromName(json_read::String(status, "phase"));
  pod.reason = json_read::String(status, "reason");
  pod.message = json_read::String(status, "message");
  pod.ip = json_read::String(status, "podIP");
  pod.taken_at = json_read::OptionalTime(status, "startTime");
  ReadConditions(status, pod);
  const nlohmann::json& statuses = json_read::Get(status, "containerStatuses");
  if (statuses.is_array()) {
    pod.containers.reserve(statuses.size());
    for (const nlohmann::json& container : statuses) {
      pod.containers.push_back(ReadContainer(container));
      if (pod.unhealthy_device.empty()) pod.unhealthy_device = UnhealthyDevice(container);
    }
  }
  const nlohmann::json& init_statuses = json_read::Get(status, "initContainerStatuses");
  if (init_statuses.is_array()) {
    for (const nlohmann::json& container : init_statuses) {
      pod.init_containers.push_back(ReadContainer(container));
      pod.init_restarts += pod.init_containers.back().restart_count;
    }
  }
  return pod;
}

absl::StatusOr<Service> Service::FromJson(const nlohmann::json& object) {
  Service service;
  TY_ASSIGN_OR_RETURN(service.meta, MetaFromJson(object));
  service.cluster_ip = json_read::String(json_read::Get(object, "spec"), "clusterIP");
  return service;
}

absl::StatusOr<ConfigMap> ConfigMap::FromJson(const nlohmann::json& object) {
  ConfigMap config;
  TY_ASSIGN_OR_RETURN(config.meta, MetaFromJson(object));
  config.content_hash = ContentHash(json_read::Get(object, "data"));
  config.job_key = json_read::String(json_read::Get(object, "data"), "key");
  return config;
}

std::string ConfigMap::ContentHash(const nlohmann::json& data) {
  // nlohmann keeps objects sorted by key, so that equal data has one text.
  const std::string text = data.is_object() ? data.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) : "{}";
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : digest) {
    hex += kHex[byte >> 4];
    hex += kHex[byte & 15];
  }
  return hex;
}

absl::StatusOr<Deployment> Deployment::FromJson(const nlohmann::json& object) {
  Deployment deployment;
  TY_ASSIGN_OR_RETURN(deployment.meta, MetaFromJson(object));
  const nlohmann::json& status = json_read::Get(object, "status");
  deployment.ready_replicas = std::max(0, json_read::Int(status, "readyReplicas"));
  deployment.unready_replicas = std::max(0, json_read::Int(status, "unavailableReplicas"));
  const nlohmann::json& conditions = json_read::Get(status, "conditions");
  if (!conditions.is_array()) return deployment;
  for (const nlohmann::json& condition : conditions) {
    if (json_read::String(condition, "type") != "ReplicaFailure" || json_read::String(condition, "status") != "True") continue;
    deployment.problem = Head(json_read::String(condition, "message", "its pods cannot be made"), kMaxMessage / 2);
  }
  return deployment;
}

absl::StatusOr<Node> Node::FromJson(const nlohmann::json& object) {
  Node node;
  TY_ASSIGN_OR_RETURN(node.meta, MetaFromJson(object));
  node.cordoned = json_read::Bool(json_read::Get(object, "spec"), "unschedulable");
  const nlohmann::json& taints = json_read::Get(json_read::Get(object, "spec"), "taints");
  if (taints.is_array()) {
    for (const nlohmann::json& taint : taints)
      node.out_of_service |= json_read::String(taint, "key") == "node.kubernetes.io/out-of-service";
  }
  const nlohmann::json& conditions = json_read::Get(json_read::Get(object, "status"), "conditions");
  if (!conditions.is_array()) return node;
  for (const nlohmann::json& condition : conditions) {
    if (json_read::String(condition, "type") != "Ready") continue;
    node.ready = json_read::String(condition, "status") == "True";
    node.ready_changed_at = json_read::Time(condition, "lastTransitionTime");
  }
  return node;
}

std::map<std::string, std::vector<std::string>, std::less<>> FieldsThatAreRead() {
  return {{"pods",
           {"metadata.annotations",
            "spec.nodeName",
            "spec.schedulerName",
            "spec.schedulingGates.name",
            "spec.containers.name",
            "spec.containers.image",
            "status.startTime",
            "status.phase",
            "status.reason",
            "status.message",
            "status.podIP",
            "status.conditions.type",
            "status.conditions.status",
            "status.conditions.reason",
            "status.conditions.message",
            "status.containerStatuses.name",
            "status.containerStatuses.ready",
            "status.containerStatuses.restartCount",
            "status.containerStatuses.state",
            "status.containerStatuses.lastState",
            "status.containerStatuses.allocatedResourcesStatus",
            "status.initContainerStatuses.name",
            "status.initContainerStatuses.ready",
            "status.initContainerStatuses.restartCount",
            "status.initContainerStatuses.state",
            "status.initContainerStatuses.lastState"}},
          {"services", {"spec.clusterIP"}},
          {"configmaps", {"data"}},
          {"deployments",
           {"status.readyReplicas", "status.unavailableReplicas", "status.conditions.type", "status.conditions.status",
            "status.conditions.message"}},
          {"nodes",
           {"spec.unschedulable", "spec.taints.key", "status.conditions.type", "status.conditions.status",
            "status.conditions.lastTransitionTime"}},
          {"events", {}}};
}

}  // namespace trainyard::control
