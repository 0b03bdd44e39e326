#include "operator/children/pod_scheduling.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "operator/children/avoided_nodes.h"
#include "operator/children/pod_json.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

// On pods of jobs with placement Exclusive.
constexpr char kExclusiveLabel[] = "trainyard.dev/exclusive";

void JoinGang(const TrainingJob& job, json& meta, json& spec) {
  const Scheduling& scheduling = job.spec.run_policy.scheduling;
  switch (scheduling.gang) {
    case Gang::kNone:
      return;
    case Gang::kVolcano: {
      json& annotations = Member(meta, "annotations", json::value_t::object);
      annotations["scheduling.k8s.io/group-name"] = job.meta.name;
      if (!scheduling.queue.empty()) annotations["volcano.sh/queue-name"] = scheduling.queue;
      return SetDefault(spec, "schedulerName", "volcano");
    }
    case Gang::kCoscheduling:
      meta["labels"]["scheduling.x-k8s.io/pod-group"] = job.meta.name;
      return SetDefault(spec, "schedulerName", "scheduler-plugins-scheduler");
    case Gang::kNative:
      return SetDefault(spec, "schedulingGroup", {{"podGroupName", job.meta.name}});
  }
}

// A group of plain pods: https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/. Pods of one role are
// of one shape, whatever their environment says.
void JoinQueue(const TrainingJob& job, const ReplicaId& id, json& meta) {
  const Scheduling& scheduling = job.spec.run_policy.scheduling;
  if (scheduling.kueue_queue.empty()) return;
  json& labels = meta["labels"];
  labels[std::string(kKueueQueueLabel)] = scheduling.kueue_queue;
  if (!scheduling.kueue_priority_class.empty()) labels[std::string(kKueuePriorityLabel)] = scheduling.kueue_priority_class;
  labels["kueue.x-k8s.io/pod-group-name"] = KueueGroupName(job);
  json& annotations = Member(meta, "annotations", json::value_t::object);
  annotations["kueue.x-k8s.io/pod-group-total-count"] = std::to_string(job.spec.AllReplicas());
  annotations["kueue.x-k8s.io/role-hash"] = Name(id.role);
}

// https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
void Place(const TrainingJob& job, json& spec) {
  const Scheduling& scheduling = job.spec.run_policy.scheduling;
  if (scheduling.topology_key.empty()) return;
  constexpr char kRequired[] = "requiredDuringSchedulingIgnoredDuringExecution";
  const auto add = [&](const char* kind, json term) {
    term["topologyKey"] = scheduling.topology_key;
    json& affinity = Member(Member(spec, "affinity", json::value_t::object), kind, json::value_t::object);
    Member(affinity, kRequired, json::value_t::array).push_back(std::move(term));
  };
  add("podAffinity", {{"labelSelector", {{"matchLabels", {{kJobUidLabel, job.meta.uid}}}}}});
  if (scheduling.placement != Placement::kExclusive) return;
  // An exclusive pod also keeps later exclusive pods away: the scheduler heeds the terms of pods
  // that run. So the terms name only exclusive jobs, by the label that their pods have.
  const json others = json::array({{{"key", kExclusiveLabel}, {"operator", "In"}, {"values", {"true"}}},
                                   {{"key", kJobUidLabel}, {"operator", "NotIn"}, {"values", {job.meta.uid}}}});
  add("podAntiAffinity", {{"labelSelector", {{"matchExpressions", others}}}, {"namespaceSelector", json::object()}});
}

}  // namespace

void MarkForScheduler(const TrainingJob& job, const ReplicaId& id, json& meta, json& spec) {
  const Scheduling& scheduling = job.spec.run_policy.scheduling;
  if (!scheduling.priority_class.empty()) SetDefault(spec, "priorityClassName", scheduling.priority_class);
  JoinGang(job, meta, spec);
  JoinQueue(job, id, meta);
  Place(job, spec);
  KeepAway(job, id, spec);
  if (!scheduling.topology_key.empty() && scheduling.placement == Placement::kExclusive) meta["labels"][kExclusiveLabel] = "true";
}

std::string KueueGroupName(const TrainingJob& job) {
  // A child's name may be so much longer than the job's, with its hyphen (CheckName).
  constexpr size_t kLength = 7;
  constexpr int64_t kMostEpochs = 10'000;  // two characters of the uid are left
  const int64_t epoch = job.status.group_epoch % kMostEpochs;
  const std::string suffix = epoch == 0 ? "" : fmt::format("-{}", epoch);
  return fmt::format("{}-{}{}", job.meta.name, job.meta.uid.substr(0, kLength - suffix.size()), suffix);
}

}  // namespace trainyard::control
