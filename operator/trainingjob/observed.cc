#include "operator/trainingjob/observed.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::control {
namespace {

enum class Belonging { kOurs, kAdoptable, kToRelease, kLeftover, kForeign };

// `right_name`: the labels make it the child that its name says.
Belonging Classify(const TrainingJob& job, const ObjectMeta& meta, bool right_name) {
  const bool labelled = meta.labels.job_uid == job.meta.uid && right_name;
  if (meta.controller.uid == job.meta.uid) return labelled ? Belonging::kOurs : Belonging::kToRelease;
  if (meta.controller.uid.empty() && labelled && !meta.deletion_time) return Belonging::kAdoptable;
  if (meta.deletion_time || (meta.controller.kind == kKind && meta.controller.name == job.meta.name)) return Belonging::kLeftover;
  return Belonging::kForeign;
}

ChildRef Ref(ChildKind kind, const ObjectMeta& meta, const std::optional<ReplicaId>& replica) {
  return {kind, meta.name, meta.uid, meta.resource_version, replica};
}

std::string Holder(const ObjectMeta& meta) {
  if (!meta.controller.uid.empty()) return fmt::format("controlled by {} {}", meta.controller.kind, meta.controller.name);
  if (!meta.labels.job_uid.empty()) return "labelled for another job";
  return "not controlled by this job";
}

class Sorter {
 public:
  Sorter(const TrainingJob& job, Observed& observed) : job_(job), observed_(observed) {}

  // True when the object is ours.
  bool Sort(ChildKind kind, const ObjectMeta& meta, const std::optional<ReplicaId>& replica, bool right_name) {
    switch (Classify(job_, meta, right_name)) {
      case Belonging::kOurs:
        return true;
      case Belonging::kAdoptable:
        observed_.adopt.push_back(Ref(kind, meta, replica));
        break;
      case Belonging::kToRelease:
        observed_.release.push_back(Ref(kind, meta, replica));
        break;
      case Belonging::kLeftover:
        observed_.leftovers.insert(meta.name);
        break;
      case Belonging::kForeign:
        observed_.taken[{kind, meta.name}] = Holder(meta);
        break;
    }
    return false;
  }

 private:
  const TrainingJob& job_;
  Observed& observed_;
};

}  // namespace

std::string_view KindName(ChildKind kind) {
  switch (kind) {
    case ChildKind::kPod:
      return "Pod";
    case ChildKind::kService:
      return "Service";
    case ChildKind::kConfigMap:
      return "ConfigMap";
    case ChildKind::kSecret:
      return "Secret";
    case ChildKind::kPodGroup:
      break;
  }
  return "PodGroup";
}

bool SameForPlan(const Pod& a, const Pod& b) {
  const auto same_end = [](const std::optional<Termination>& x, const std::optional<Termination>& y) {
    return x.has_value() == y.has_value() && (!x || (x->exit_code == y->exit_code && x->reason == y->reason && x->message == y->message));
  };
  const auto same_container = [&](const ContainerStatus& x, const ContainerStatus& y) {
    return x.restart_count == y.restart_count && x.waiting_reason == y.waiting_reason && x.running_since == y.running_since &&
           same_end(x.terminated, y.terminated) && same_end(x.last_terminated, y.last_terminated);
  };
  return a.meta.uid == b.meta.uid && a.meta.deletion_time == b.meta.deletion_time && a.meta.controller.uid == b.meta.controller.uid &&
         a.phase == b.phase && a.ready == b.ready && a.disruption_target == b.disruption_target && a.unschedulable == b.unschedulable &&
         a.reason == b.reason && a.init_restarts == b.init_restarts &&
         std::equal(a.containers.begin(), a.containers.end(), b.containers.begin(), b.containers.end(), same_container);
}

Observed Observe(const TrainingJob& job, Children children) {
  Observed observed;
  observed.taken = std::move(children.taken);
  observed.unwatched = std::move(children.unwatched);
  observed.down_nodes = std::move(children.down_nodes);
  observed.progress = std::move(children.progress);
  Sorter sorter(job, observed);
  for (auto& pod : children.pods) {
    const std::optional<ReplicaId> id = ReplicaFromLabels(pod->meta.labels);
    const bool right_name = id && pod->meta.name == ChildName(job, *id);
    if (sorter.Sort(ChildKind::kPod, pod->meta, id, right_name)) observed.pods[*id] = std::move(pod);
  }
  for (const auto& service : children.services) {
    const ObjectMeta& meta = service->meta;
    const std::optional<ReplicaId> id = ReplicaFromLabels(meta.labels);
    const bool right_name = id ? meta.name == ChildName(job, *id) : meta.labels.role.empty() && meta.name == HeadlessServiceName(job);
    if (sorter.Sort(ChildKind::kService, meta, id, right_name)) observed.services[meta.name] = Ref(ChildKind::kService, meta, id);
  }
  for (auto& config : children.configs) {
    const bool right_name = config->meta.name == ConfigMapName(job);
    if (sorter.Sort(ChildKind::kConfigMap, config->meta, std::nullopt, right_name)) observed.config = std::move(config);
  }
  return observed;
}

}  // namespace trainyard::control
