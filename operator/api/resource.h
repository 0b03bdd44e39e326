// Resource: a kind of object as the API server's paths name it.
#pragma once

#include <string>
#include <string_view>

namespace trainyard::control {

// Text is not owned: resources are constants.
struct Resource {
  std::string_view group;  // "" is the core group
  std::string_view version;
  std::string_view plural;
  std::string_view kind;
  bool namespaced = true;

  // "/api/v1/namespaces/<ns>/pods[/<name>[/<subresource>]]"; an empty namespace is all namespaces,
  // an empty name the collection.
  std::string Path(std::string_view ns, std::string_view name = "", std::string_view subresource = "") const;
  // "v1", "coordination.k8s.io/v1": what an object's apiVersion holds.
  std::string ApiVersion() const;
};

inline constexpr Resource kPods{"", "v1", "pods", "Pod"};
inline constexpr Resource kServices{"", "v1", "services", "Service"};
inline constexpr Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap"};
inline constexpr Resource kSecrets{"", "v1", "secrets", "Secret"};
inline constexpr Resource kPersistentVolumeClaims{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"};
inline constexpr Resource kDeployments{"apps", "v1", "deployments", "Deployment"};
inline constexpr Resource kNodes{"", "v1", "nodes", "Node", false};
inline constexpr Resource kLeases{"coordination.k8s.io", "v1", "leases", "Lease"};
inline constexpr Resource kEvents{"events.k8s.io", "v1", "events", "Event"};
inline constexpr Resource kTrainingJobs{"trainyard.dev", "v1alpha1", "trainingjobs", "TrainingJob"};

// "namespace/name", or "name" for cluster-scoped objects: what queues and stores hold.
std::string ObjectKey(std::string_view ns, std::string_view name);
struct NamespacedName {
  std::string ns;
  std::string name;
};
NamespacedName SplitKey(std::string_view key);

}  // namespace trainyard::control
