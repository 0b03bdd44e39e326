#include "operator/trainingjob/child_resources.h"

#include <nlohmann/json.hpp>

#include "operator/base/status_macros.h"
#include "operator/trainingjob/config_builder.h"
#include "operator/trainingjob/pod_builder.h"
#include "operator/trainingjob/pod_group_builder.h"
#include "operator/trainingjob/service_builder.h"
#include "operator/trainingjob/ssh_keys.h"

namespace trainyard::control {
namespace {

constexpr Resource kVolcanoPodGroups{"scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup"};
constexpr Resource kPodGroups{"scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup"};

}  // namespace

const Resource& ResourceOf(ChildKind kind, const TrainingJob& job) {
  switch (kind) {
    case ChildKind::kPod:
      return kPods;
    case ChildKind::kService:
      return kServices;
    case ChildKind::kConfigMap:
      return kConfigMaps;
    case ChildKind::kSecret:
      return kSecrets;
    case ChildKind::kPodGroup:
      break;
  }
  return job.spec.run_policy.scheduling.gang == Gang::kVolcano ? kVolcanoPodGroups : kPodGroups;
}

absl::StatusOr<nlohmann::json> BuildChild(const TrainingJob& job, const ChildRef& child) {
  switch (child.kind) {
    case ChildKind::kPod:
      return BuildPod(job, *child.replica);
    case ChildKind::kService:
      return child.replica ? BuildReplicaService(job, *child.replica) : BuildHeadlessService(job);
    case ChildKind::kConfigMap:
      return BuildConfigMap(job, job.status.hosts_epoch);
    case ChildKind::kSecret: {
      TY_ASSIGN_OR_RETURN(const SshKeys keys, MakeSshKeys());
      return BuildSshSecret(job, keys);
    }
    case ChildKind::kPodGroup:
      break;
  }
  return BuildPodGroup(job);
}

}  // namespace trainyard::control
