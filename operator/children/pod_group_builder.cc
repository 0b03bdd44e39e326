#include "operator/children/pod_group_builder.h"

#include <nlohmann/json.hpp>

#include "operator/api/json_read.h"
#include "operator/children/child_kinds.h"
#include "operator/children/child_meta.h"
#include "operator/children/gang_resources.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

// https://kubernetes.io/docs/concepts/scheduling-eviction/gang-scheduling/
json NativeSpec(const TrainingJob& job) { return {{"schedulingPolicy", {{"gang", {{"minCount", MinMember(job)}}}}}}; }

json SpecOf(const TrainingJob& job) {
  const Scheduling& scheduling = job.spec.run_policy.scheduling;
  if (scheduling.gang == Gang::kNative) return NativeSpec(job);
  json spec = ScaledPodGroupSpec(job);
  if (scheduling.gang != Gang::kVolcano) return spec;
  if (!scheduling.queue.empty()) spec["queue"] = scheduling.queue;
  if (!scheduling.priority_class.empty()) spec["priorityClassName"] = scheduling.priority_class;
  return spec;
}

}  // namespace

int MinMember(const TrainingJob& job) { return job.spec.run_policy.scheduling.min_available.value_or(job.spec.AllReplicas()); }

int MinMemberOf(const TrainingJob& job, const json& object) {
  const json& spec = json_read::Get(object, "spec");
  if (job.spec.run_policy.scheduling.gang != Gang::kNative) return json_read::Int(spec, "minMember");
  return json_read::Int(json_read::Get(json_read::Get(spec, "schedulingPolicy"), "gang"), "minCount");
}

json ScaledPodGroupSpec(const TrainingJob& job) {
  if (!job.spec.run_policy.scheduling.GroupFollowsScale()) return json::object();
  if (job.spec.run_policy.scheduling.gang == Gang::kNative) return NativeSpec(job);
  json spec = {{"minMember", MinMember(job)}};
  if (const ResourceSum requests = RequestsOf(job, MinMember(job)); !requests.empty()) spec["minResources"] = ToJson(requests);
  return spec;
}

json BuildPodGroup(const TrainingJob& job) {
  const Resource& resource = TraitsOf(ChildKind::kPodGroup).resource(job);
  return {{"apiVersion", resource.ApiVersion()},
          {"kind", resource.kind},
          {"metadata", ChildMeta(job, job.meta.name, std::nullopt)},
          {"spec", SpecOf(job)}};
}

}  // namespace trainyard::control
