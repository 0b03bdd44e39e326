#include "operator/children/pod_group_builder.h"

#include <nlohmann/json.hpp>

#include "operator/children/child_meta.h"

namespace trainyard::control {

int MinMember(const TrainingJob& job) {
  int replicas = 0;
  for (const auto& [role, replica] : job.spec.replicas) replicas += replica.replicas;
  return job.spec.run_policy.scheduling.min_available.value_or(replicas);
}

nlohmann::json BuildPodGroup(const TrainingJob& job) {
  const Scheduling& scheduling = job.spec.run_policy.scheduling;
  nlohmann::json spec = {{"minMember", MinMember(job)}};
  const bool volcano = scheduling.gang == Gang::kVolcano;
  if (volcano && !scheduling.queue.empty()) spec["queue"] = scheduling.queue;
  if (volcano && !scheduling.priority_class.empty()) spec["priorityClassName"] = scheduling.priority_class;
  return {{"apiVersion", volcano ? "scheduling.volcano.sh/v1beta1" : "scheduling.x-k8s.io/v1alpha1"},
          {"kind", "PodGroup"},
          {"metadata", ChildMeta(job, job.meta.name, std::nullopt)},
          {"spec", std::move(spec)}};
}

}  // namespace trainyard::control
