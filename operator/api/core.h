// The fields that the operator reads of Kubernetes' own kinds. All others are dropped while
// parsing, so that a cached pod is some hundred bytes. All FromJson functions are tolerant: a field
// of a wrong type counts as absent. Only an object without a name is InvalidArgument.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "operator/api/meta.h"
#include "operator/base/boxed_optional.h"

namespace trainyard::control {

enum class PodPhase : uint8_t { kPending, kRunning, kSucceeded, kFailed, kUnknown };
std::string_view PodPhaseName(PodPhase phase);

// How a container ended, now (state.terminated) or the last time (lastState.terminated).
struct Termination {
  int exit_code = 0;
  int signal = 0;
  std::string reason;   // "OOMKilled", "Error" …
  std::string message;  // the log's tail, where terminationMessagePolicy is FallbackToLogsOnError
  absl::Time started_at = absl::InfinitePast();
  absl::Time finished_at = absl::InfinitePast();
};

struct ContainerStatus {
  std::string name;
  bool ready = false;
  int restart_count = 0;
  std::optional<absl::Time> running_since;  // state.running
  std::string waiting_reason;               // state.waiting: "CrashLoopBackOff", "ImagePullBackOff" …
  std::string waiting_message;
  BoxedOptional<Termination> terminated;       // state.terminated
  BoxedOptional<Termination> last_terminated;  // lastState.terminated
};

struct PodCondition {
  std::string type;
  std::string status;  // "True", "False" or "Unknown"
  friend bool operator==(const PodCondition&, const PodCondition&) = default;
};

// Whether every pod has conditions of that type, whatever becomes of it.
bool IsUsualCondition(std::string_view type);

struct Pod {
  ObjectMeta meta;
  PodPhase phase = PodPhase::kPending;
  bool ready = false;                    // condition Ready
  bool disruption_target = false;        // condition DisruptionTarget, or Kueue's TerminationTarget
  std::vector<PodCondition> conditions;  // but the usual ones
  std::string disruption;                // its reason and message: "EvictionByEvictionAPI: …"
  bool scheduler_spoke = false;          // condition PodScheduled is there
  std::string gates;                     // names of spec.schedulingGates, "a, b": no scheduler looks at it while it has one
  std::string unschedulable;             // message of PodScheduled=False with reason Unschedulable; else empty
  std::string reason;                    // status.reason: "Evicted", "NodeLost" …
  std::string message;
  std::string node;
  std::string scheduler;               // spec.schedulerName
  std::string kueue_queue;             // of Kueue's label; empty: in no queue
  std::optional<absl::Time> taken_at;  // status.startTime: the node's kubelet has it
  std::string ip;
  std::string main_container;                    // the name of the replica's own (MainContainerIndex)
  std::string main_image;                        // its image
  std::vector<ContainerStatus> containers;       // status.containerStatuses
  std::vector<ContainerStatus> init_containers;  // status.initContainerStatuses
  int init_restarts = 0;                         // restarts of all init containers together
  std::string unhealthy_device;                  // "nvidia.com/gpu GPU-0": the first that its containers have; else empty

  // The status of the replica's own container, by name; null while the kubelet has not reported it.
  const ContainerStatus* Main() const;
  // Neither succeeded nor failed.
  bool IsActive() const { return phase != PodPhase::kSucceeded && phase != PodPhase::kFailed; }

  static absl::StatusOr<Pod> FromJson(const nlohmann::json& object);
};

struct Service {
  ObjectMeta meta;
  std::string cluster_ip;  // "None" of a headless one
  static absl::StatusOr<Service> FromJson(const nlohmann::json& object);
};

struct ConfigMap {
  ObjectMeta meta;
  std::string content_hash;  // ContentHash() of data
  std::string job_key;       // data.key; "" where there is none
  static absl::StatusOr<ConfigMap> FromJson(const nlohmann::json& object);
  // A digest over keys and values; equal exactly for equal data (SHA-256).
  static std::string ContentHash(const nlohmann::json& data);
};

struct Deployment {
  ObjectMeta meta;  // its generation counts the changes of the spec
  int ready_replicas = 0;
  int unready_replicas = 0;  // pods that are there, or are to be, and not ready: while it rolls out of both kinds
  std::string problem;       // message of condition ReplicaFailure: why its pods cannot be made; else empty
  static absl::StatusOr<Deployment> FromJson(const nlohmann::json& object);
};

struct Node {
  ObjectMeta meta;
  bool ready = false;                                  // condition Ready
  absl::Time ready_changed_at = absl::InfinitePast();  // its lastTransitionTime
  bool cordoned = false;                               // spec.unschedulable
  bool out_of_service = false;                         // tainted node.kubernetes.io/out-of-service: nothing runs on it any more
  static absl::StatusOr<Node> FromJson(const nlohmann::json& object);
};

// The fields of the API server's objects that are read, by resource, as kube/client.h's
// ClientOptions::read takes them. Jobs are read whole.
std::map<std::string, std::vector<std::string>, std::less<>> FieldsThatAreRead();

}  // namespace trainyard::control
