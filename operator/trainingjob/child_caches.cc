#include "operator/trainingjob/child_caches.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "operator/children/avoided_nodes.h"

namespace trainyard::control {
namespace {

// The job that a child belongs to, by its labels or, where those are gone, its controller.
std::string JobKeyOf(const ObjectMeta& meta) {
  if (!meta.labels.job_name.empty()) return ObjectKey(meta.name_space, meta.labels.job_name);
  return meta.controller.kind == kKind ? ObjectKey(meta.name_space, meta.controller.name) : "";
}

// Null where the name is another's.
template <typename Lister>
auto OwnOf(const TrainingJob& job, const Lister& lister, const std::string& name) {
  auto object = lister.Get(ObjectKey(job.meta.name_space, name));
  return object != nullptr && object->meta.controller.uid == job.meta.uid ? object : nullptr;
}

// Whether it matters to the job if the pod's node is down.
bool DependsOnItsNode(const Pod& pod) { return pod.meta.deletion_time || (pod.phase == PodPhase::kRunning && !pod.ready); }

}  // namespace

ChildCaches::ChildCaches(JobInformers informers)
    : informers_(informers), caches_([&] {
        const auto of = [](auto& informer) {
          return Cache{.observe_write = [&informer](const nlohmann::json& object) { informer.ObserveWrite(object); },
                       .observe_delete = [&informer](const std::string& key, const std::string& uid) { informer.ObserveDelete(key, uid); }};
        };
        return std::map<ChildKind, Cache>{{ChildKind::kPod, of(informers.pods)},
                                          {ChildKind::kService, of(informers.services)},
                                          {ChildKind::kConfigMap, of(informers.configs)},
                                          {ChildKind::kDeployment, of(informers.deployments)}};
      }()) {}

void ChildCaches::Connect(WorkQueue& queue) {
  informers_.jobs.AddHandler([&queue](const auto& before, const auto& after) {
    // Making the children of many new jobs takes long; the status of those that run must not wait
    // for it.
    if (before == nullptr) {
      queue.AddToBacklog(after->meta.Key());
    } else {
      queue.Add(before->meta.Key());
    }
  });
  // The children of a job that is gone, or not seen yet, wake no job: the job's own event comes, or
  // came.
  const auto touch_job = [this, &queue](const ObjectMeta& child) {
    if (const std::string key = JobKeyOf(child); informers_.jobs.lister().Get(key) != nullptr) queue.Add(key);
  };
  const auto if_it_matters = [touch_job](const auto& before, const auto& after) {
    if (before && after && SameForPlan(*before, *after)) return;
    touch_job((after ? after : before)->meta);
  };
  // First: the job that is woken then finds it.
  informers_.pods.AddHandler([this](const auto& /*before*/, const auto& after) {
    if (after) left_.Note(JobKeyOf(after->meta), *after);
  });
  informers_.pods.AddHandler(if_it_matters);
  informers_.pods.AddHandler([this, &queue](const auto& /*before*/, const auto& after) {
    if (after && NoteIfHeld(after->meta)) queue.Add(JobKeyOf(after->meta));
  });
  informers_.deployments.AddHandler(if_it_matters);
  const auto of_child = [touch_job](const auto& before, const auto& after) { touch_job((after ? after : before)->meta); };
  informers_.services.AddHandler(of_child);
  informers_.configs.AddHandler(of_child);
  if (informers_.nodes == nullptr) return;
  informers_.nodes->AddHandler([this, &queue](const auto& before, const auto& after) {
    const std::optional<NodeDown> was = before ? DownState(before.get()) : std::nullopt;
    if (after && DownState(after.get()) == was) return;
    const std::string& node = (after ? after : before)->meta.name;
    for (const auto& pod : informers_.pods.lister().All()) {
      if (pod->node == node && DependsOnItsNode(*pod)) queue.Add(JobKeyOf(pod->meta));
    }
    if (after) return;
    for (const auto& job : informers_.jobs.lister().All()) {  // they forget it
      if (std::ranges::count(job->status.failed_nodes, node, &FailedNode::node) > 0) queue.Add(job->meta.Key());
    }
  });
}

std::shared_ptr<const ConfigMap> ChildCaches::ConfigOf(const TrainingJob& job) const {
  return informers_.configs.lister().Get(ObjectKey(job.meta.name_space, ConfigMapName(job)));
}

std::shared_ptr<const Deployment> ChildCaches::ServeDeploymentOf(const TrainingJob& job) const {
  return OwnOf(job, informers_.deployments.lister(), ServeName(job));
}

std::shared_ptr<const Service> ChildCaches::ServeServiceOf(const TrainingJob& job) const {
  return OwnOf(job, informers_.services.lister(), ServeName(job));
}

std::shared_ptr<const Pod> ChildCaches::AnyPodOf(const TrainingJob& job) const { return informers_.pods.lister().AnyByOwner(job.meta.uid); }

Children ChildCaches::Gather(const TrainingJob& job) const {
  Children children;
  const std::string& ns = job.meta.name_space;
  children.pods = informers_.pods.lister().ByOwner(job.meta.uid);
  children.services = informers_.services.lister().ByOwner(job.meta.uid);
  children.configs = informers_.configs.lister().ByOwner(job.meta.uid);
  // Other objects with the name of a child: orphans to adopt, and strangers.
  const auto add = [&](auto& list, const auto& lister, const std::string& name) {
    auto object = lister.Get(ObjectKey(ns, name));
    if (object != nullptr && object->meta.controller.uid != job.meta.uid) list.push_back(std::move(object));
  };
  for (const auto& [role, replica] : job.spec.replicas) {
    for (int i = 0; i < replica.replicas; ++i) {
      const std::string name = ChildName(job, {role, i});
      add(children.pods, informers_.pods.lister(), name);
      if (job.spec.network.services == ServicesMode::kPerReplica) add(children.services, informers_.services.lister(), name);
    }
  }
  if (job.spec.network.services == ServicesMode::kHeadless) add(children.services, informers_.services.lister(), HeadlessServiceName(job));
  children.serving.deployments = informers_.deployments.lister().ByOwner(job.meta.uid);
  if (job.spec.serve) {
    add(children.serving.deployments, informers_.deployments.lister(), ServeName(job));
    add(children.services, informers_.services.lister(), ServeName(job));
  }
  add(children.configs, informers_.configs.lister(), ConfigMapName(job));
  if (informers_.nodes == nullptr) return children;
  if (job.spec.run_policy.avoid_failed_nodes) children.nodes = SeeNodes(job);
  for (const auto& pod : children.pods) {
    if (!DependsOnItsNode(*pod) || pod->node.empty()) continue;
    const auto node = informers_.nodes->lister().Get(pod->node);
    if (const std::optional<NodeDown> down = DownState(node.get())) children.down_nodes[pod->node] = *down;
  }
  return children;
}

NodesSeen ChildCaches::SeeNodes(const TrainingJob& job) const {
  NodesSeen seen;
  for (const FailedNode& failed : job.status.failed_nodes) {
    if (informers_.nodes->lister().Get(failed.node) == nullptr) seen.gone.insert(failed.node);
  }
  for (const auto& node : informers_.nodes->lister().All()) {
    if (DownState(node.get()) || node->cordoned) continue;
    seen.usable.push_back(node->meta.name);
    if (seen.usable.size() > kMostAvoidedNodes) break;  // no replica keeps away from so many
  }
  return seen;
}

bool ChildCaches::NoteIfHeld(const ObjectMeta& pod) {
  if (!pod.deletion_time || !pod.HeldByKueue()) return false;
  held_.Note(JobKeyOf(pod), pod.Key());
  return true;
}

absl::Status ChildCaches::ForEachHeldPod(const std::string& job_key, const std::function<absl::Status(const Pod& pod)>& let_go) {
  absl::Status first;
  for (const std::string& pod_key : held_.Take(job_key)) {
    const auto pod = informers_.pods.lister().Get(pod_key);
    if (pod == nullptr || !pod->meta.deletion_time || !pod->meta.HeldByKueue()) continue;
    const absl::Status status = let_go(*pod);
    if (!status.ok()) held_.Note(job_key, pod_key);
    first.Update(status);
  }
  return first;
}

void ChildCaches::ObserveWrite(ChildKind kind, const nlohmann::json& object) {
  if (const auto cache = caches_.find(kind); cache != caches_.end()) cache->second.observe_write(object);
  if (kind != ChildKind::kPod) return;
  // No handler hears of own deletes.
  if (const absl::StatusOr<ObjectMeta> meta = MetaFromJson(object); meta.ok()) NoteIfHeld(*meta);
}

void ChildCaches::ObserveDelete(ChildKind kind, const std::string& key, const std::string& uid) {
  if (const auto cache = caches_.find(kind); cache != caches_.end()) cache->second.observe_delete(key, uid);
}

}  // namespace trainyard::control
