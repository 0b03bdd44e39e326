#include "operator/children/child_kinds.h"

#include <array>
#include <nlohmann/json.hpp>

#include "operator/children/config_builder.h"
#include "operator/children/pod_builder.h"
#include "operator/children/pod_group_builder.h"
#include "operator/children/serve_builder.h"
#include "operator/children/service_builder.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr Resource kVolcanoPodGroups{"scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup"};
constexpr Resource kNativeAlphaPodGroups{"scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup"};
constexpr Resource kNativePodGroups{"scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup"};
constexpr Resource kPodGroups{"scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup"};

template <const Resource& kResource>
const Resource& Always(const TrainingJob& /*job*/) {
  return kResource;
}

const Resource& PodGroups(const TrainingJob& job) {
  switch (job.spec.run_policy.scheduling.gang) {
    case Gang::kVolcano:
      return kVolcanoPodGroups;
    case Gang::kNative:
      return job.spec.run_policy.scheduling.native == NativeVersion::kV1Alpha2 ? kNativeAlphaPodGroups : kNativePodGroups;
    case Gang::kCoscheduling:
    case Gang::kNone:
      return kPodGroups;
  }
  return kPodGroups;
}

json PodOf(const TrainingJob& job, const ChildRef& child, const ChildSecrets& /*secrets*/) { return BuildPod(job, *child.replica); }

json ServiceOf(const TrainingJob& job, const ChildRef& child, const ChildSecrets& /*secrets*/) {
  if (child.name == ServeName(job)) return BuildServeService(job);
  return child.replica ? BuildReplicaService(job, *child.replica) : BuildHeadlessService(job);
}

json ConfigMapOf(const TrainingJob& job, const ChildRef& /*child*/, const ChildSecrets& secrets) {
  return BuildConfigMap(job, job.status.hosts_epoch, secrets.key.key);
}

json SecretOf(const TrainingJob& job, const ChildRef& /*child*/, const ChildSecrets& secrets) {
  return NeedsSshKeys(job) ? BuildSshSecret(job, secrets.ssh) : BuildKeySecret(job, secrets.key);
}

json PodGroupOf(const TrainingJob& job, const ChildRef& /*child*/, const ChildSecrets& /*secrets*/) { return BuildPodGroup(job); }

json DeploymentOf(const TrainingJob& job, const ChildRef& /*child*/, const ChildSecrets& /*secrets*/) { return BuildServeDeployment(job); }

// In the order of ChildKind.
// clang-format off
constexpr std::array kTable = {
    //           kind                    name          watched  pods need it  resource               build
    ChildTraits{ChildKind::kPod,        "Pod",        true,    false,        Always<kPods>,         PodOf},
    ChildTraits{ChildKind::kService,    "Service",    true,    false,        Always<kServices>,     ServiceOf},
    ChildTraits{ChildKind::kConfigMap,  "ConfigMap",  true,    true,         Always<kConfigMaps>,   ConfigMapOf},
    ChildTraits{ChildKind::kSecret,     "Secret",     false,   true,         Always<kSecrets>,      SecretOf},
    ChildTraits{ChildKind::kPodGroup,   "PodGroup",   false,   true,         PodGroups,             PodGroupOf},
    ChildTraits{ChildKind::kDeployment, "Deployment", true,    false,        Always<kDeployments>,  DeploymentOf},
};
// clang-format on

constexpr bool IsInOrder() {
  for (size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<size_t>(kTable[i].kind) != i) return false;
  }
  return true;
}
static_assert(IsInOrder());

}  // namespace

const ChildTraits& TraitsOf(ChildKind kind) { return kTable[static_cast<size_t>(kind)]; }

}  // namespace trainyard::control
