// metadata of a Kubernetes object: only the fields that the operator reads are kept, because
// thousands of objects are cached.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace trainyard::control {

inline constexpr std::string_view kGroup = "trainyard.dev";
inline constexpr std::string_view kVersion = "v1alpha1";
inline constexpr std::string_view kApiVersion = "trainyard.dev/v1alpha1";
inline constexpr std::string_view kKind = "TrainingJob";
inline constexpr std::string_view kPlural = "trainingjobs";

// Labels on every child; lists and watches of children select objects that have kJobUidLabel.
inline constexpr std::string_view kJobNameLabel = "trainyard.dev/job-name";
inline constexpr std::string_view kJobUidLabel = "trainyard.dev/job-uid";
inline constexpr std::string_view kRoleLabel = "trainyard.dev/role";
inline constexpr std::string_view kIndexLabel = "trainyard.dev/index";

// Labels of the pods that serve a job's checkpoints, which no cache holds: the job's name and uid.
inline constexpr std::string_view kServeLabel = "trainyard.dev/serve";
inline constexpr std::string_view kServeUidLabel = "trainyard.dev/serve-uid";

// Kueue's labels on a job, which its pods carry too; and its finalizer on pods.
inline constexpr std::string_view kKueueQueueLabel = "kueue.x-k8s.io/queue-name";
inline constexpr std::string_view kKueuePriorityLabel = "kueue.x-k8s.io/priority-class";
inline constexpr std::string_view kKueueFinalizer = "kueue.x-k8s.io/managed";

// The owner reference that has controller=true; all empty when there is none.
struct ControllerRef {
  std::string kind;
  std::string name;
  std::string uid;
};

// Our labels' values; empty where a label is missing.
struct ChildLabels {
  std::string job_name;
  std::string job_uid;
  std::string role;
  std::string index;
  friend bool operator==(const ChildLabels&, const ChildLabels&) = default;
};

struct ObjectMeta {
  std::string name;
  std::string name_space;
  std::string uid;
  std::string resource_version;
  int64_t generation = 0;
  absl::Time creation_time = absl::InfinitePast();
  std::optional<absl::Time> deletion_time;  // present: the object is Terminating; it was asked for a grace period earlier
  std::optional<absl::Duration> deletion_grace;
  std::string finalizers;  // with commas
  ControllerRef controller;
  ChildLabels labels;

  // Terminating without a grace: only finalizers keep the object.
  bool ForceDeleted() const { return deletion_time && deletion_grace == absl::ZeroDuration(); }
  bool HeldByKueue() const { return finalizers.find(kKueueFinalizer) != std::string::npos; }
  // "namespace/name", or the name alone for objects without a namespace: the key of stores and
  // queues.
  std::string Key() const { return name_space.empty() ? name : name_space + "/" + name; }
};

// Reads object["metadata"]; tolerant of everything but a missing name. InvalidArgument names what
// is wrong.
absl::StatusOr<ObjectMeta> MetaFromJson(const nlohmann::json& object);

}  // namespace trainyard::control
