#include "operator/plan/observed.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::control {
namespace {

enum class Belonging { kOurs, kToRelabel, kAdoptable, kToRelease, kLeftover, kForeign };

// `replica`: whose child it is by its name. `child_name`: a child of the job may have that name.
Belonging Classify(const TrainingJob& job, const ObjectMeta& meta, const std::optional<ReplicaId>& replica, bool child_name) {
  const LabelFit fit = child_name ? FitOf(meta.labels, job, replica) : LabelFit::kOther;
  const bool labelled = fit == LabelFit::kRight;
  if (meta.controller.uid == job.meta.uid) {
    return labelled ? Belonging::kOurs : fit == LabelFit::kIncomplete ? Belonging::kToRelabel : Belonging::kToRelease;
  }
  if (meta.controller.uid.empty() && labelled && !meta.deletion_time) return Belonging::kAdoptable;
  if (meta.deletion_time || (meta.controller.kind == kKind && meta.controller.name == job.meta.name)) return Belonging::kLeftover;
  return Belonging::kForeign;
}

ChildRef Ref(ChildKind kind, const ObjectMeta& meta, const std::optional<ReplicaId>& replica) {
  return {kind, meta.name, meta.uid, meta.resource_version, replica, meta.deletion_time.has_value()};
}

std::string Holder(const ObjectMeta& meta) {
  if (!meta.controller.uid.empty()) return fmt::format("controlled by {} {}", meta.controller.kind, meta.controller.name);
  if (!meta.labels.job_uid.empty()) return "labelled for another job";
  return "not controlled by this job";
}

// `Sink` is Observed or ObservedServing.
template <typename Sink>
class Sorter {
 public:
  Sorter(const TrainingJob& job, Sink& observed) : job_(job), observed_(observed) {}

  // True when the object is ours.
  bool Sort(ChildKind kind, const ObjectMeta& meta, const std::optional<ReplicaId>& replica, bool child_name) {
    switch (Classify(job_, meta, replica, child_name)) {
      case Belonging::kOurs:
        return true;
      case Belonging::kToRelabel:
        observed_.relabel.push_back(Ref(kind, meta, replica));
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
  Sink& observed_;
};

ObservedServing ObserveServing(const TrainingJob& job, ServingChildren children) {
  ObservedServing serving;
  serving.applied = std::move(children.applied);
  serving.refusal = std::move(children.refusal);
  serving.version = children.version;
  serving.problem = std::move(children.problem);
  Sorter sorter(job, serving);
  for (auto& deployment : children.deployments) {
    if (sorter.Sort(ChildKind::kDeployment, deployment->meta, std::nullopt, deployment->meta.name == ServeName(job)))
      serving.deployment = std::move(deployment);
  }
  return serving;
}

// What another object has that spec.serve would have is nothing to the training.
void SplitTaken(const TrainingJob& job, Observed& observed) {
  for (const ChildKind kind : {ChildKind::kDeployment, ChildKind::kService}) {
    if (auto taken = observed.taken.extract({kind, ServeName(job)})) observed.serving.taken.insert(std::move(taken));
  }
}

}  // namespace

std::optional<NodeDown> DownState(const Node* node) {
  if (node == nullptr) return NodeDown::kGone;
  if (node->out_of_service) return NodeDown::kOutOfService;
  return node->ready ? std::nullopt : std::optional<NodeDown>(NodeDown::kNotReady);
}

bool SameForPlan(const Pod& a, const Pod& b) {
  const auto same_end = [](const BoxedOptional<Termination>& x, const BoxedOptional<Termination>& y) {
    return x.has_value() == y.has_value() && (!x || (x->exit_code == y->exit_code && x->reason == y->reason && x->message == y->message));
  };
  const auto same_container = [&](const ContainerStatus& x, const ContainerStatus& y) {
    return x.restart_count == y.restart_count && x.waiting_reason == y.waiting_reason && x.running_since == y.running_since &&
           same_end(x.terminated, y.terminated) && same_end(x.last_terminated, y.last_terminated);
  };
  return a.meta.uid == b.meta.uid && a.meta.deletion_time == b.meta.deletion_time && a.meta.controller.uid == b.meta.controller.uid &&
         a.meta.labels == b.meta.labels && a.meta.finalizers == b.meta.finalizers && a.meta.ForceDeleted() == b.meta.ForceDeleted() &&
         a.phase == b.phase && a.ready == b.ready && a.disruption_target == b.disruption_target && a.unschedulable == b.unschedulable &&
         a.reason == b.reason && a.init_restarts == b.init_restarts && a.taken_at == b.taken_at && a.scheduler_spoke == b.scheduler_spoke &&
         a.gates == b.gates && a.kueue_queue == b.kueue_queue && a.disruption == b.disruption && a.conditions == b.conditions &&
         a.unhealthy_device == b.unhealthy_device &&
         std::equal(a.init_containers.begin(), a.init_containers.end(), b.init_containers.begin(), b.init_containers.end(),
                    same_container) &&
         std::equal(a.containers.begin(), a.containers.end(), b.containers.begin(), b.containers.end(), same_container);
}

bool SameForPlan(const Deployment& a, const Deployment& b) {
  return a.meta.uid == b.meta.uid && a.meta.generation == b.meta.generation && a.meta.deletion_time == b.meta.deletion_time &&
         a.meta.controller.uid == b.meta.controller.uid && a.meta.labels == b.meta.labels && a.ready_replicas == b.ready_replicas &&
         a.unready_replicas == b.unready_replicas && a.problem == b.problem;
}

Observed Observe(const TrainingJob& job, Children children) {
  Observed observed;
  observed.taken = std::move(children.taken);
  observed.unwatched = std::move(children.unwatched);
  observed.refusal = std::move(children.refusal);
  observed.down_nodes = std::move(children.down_nodes);
  observed.nodes = std::move(children.nodes);
  observed.progress = std::move(children.progress);
  observed.chief_problem = std::move(children.chief_problem);
  observed.serving = ObserveServing(job, std::move(children.serving));
  observed.hosts_seen = std::move(children.hosts_seen);
  SplitTaken(job, observed);
  Sorter sorter(job, observed);
  Sorter serving_sorter(job, observed.serving);
  for (auto& pod : children.pods) {
    const std::optional<ReplicaId> id = ReplicaFromName(job, pod->meta.name);
    if (sorter.Sort(ChildKind::kPod, pod->meta, id, id.has_value())) observed.pods[*id] = std::move(pod);
  }
  for (const auto& service : children.services) {
    const ObjectMeta& meta = service->meta;
    if (meta.name == ServeName(job)) {
      if (serving_sorter.Sort(ChildKind::kService, meta, std::nullopt, true)) observed.serving.service = Ref(ChildKind::kService, meta, {});
      continue;
    }
    const std::optional<ReplicaId> id = ReplicaFromName(job, meta.name);
    if (sorter.Sort(ChildKind::kService, meta, id, id || meta.name == HeadlessServiceName(job)))
      observed.services[meta.name] = Ref(ChildKind::kService, meta, id);
  }
  for (auto& config : children.configs) {
    if (sorter.Sort(ChildKind::kConfigMap, config->meta, std::nullopt, config->meta.name == ConfigMapName(job)))
      observed.config = std::move(config);
  }
  return observed;
}

}  // namespace trainyard::control
