#include "operator/trainingjob/reconciler.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "operator/api/json_read.h"
#include "operator/base/status_macros.h"
#include "operator/kube/errors.h"
#include "operator/trainingjob/child_meta.h"
#include "operator/trainingjob/child_resources.h"
#include "operator/trainingjob/conditions.h"
#include "operator/trainingjob/config_builder.h"
#include "operator/trainingjob/job_events.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

// The job that a child belongs to, by its labels or, where those are gone, its controller.
std::string JobKeyOf(const ObjectMeta& meta) {
  if (!meta.labels.job_name.empty()) return ObjectKey(meta.name_space, meta.labels.job_name);
  return meta.controller.kind == kKind ? ObjectKey(meta.name_space, meta.controller.name) : "";
}

// Collects the first error of calls that run at once.
class FirstError {
 public:
  void Add(const absl::Status& status) {
    if (status.ok()) return;
    MutexLock lock(mutex_);
    if (error_.ok()) error_ = status;
  }
  absl::Status Get() {
    MutexLock lock(mutex_);
    return error_;
  }

 private:
  Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
};

// When a backlog of so many jobs may be done with: later for some than for others, so that they do not all come back at once.
absl::Duration TimeFor(size_t jobs, const std::string& key) {
  constexpr absl::Duration kForOne = absl::Milliseconds(50);
  constexpr size_t kShares = 64;
  return jobs * kForOne * (1 + static_cast<double>(std::hash<std::string>()(key) % kShares) / kShares);
}

void LookAgainIn(ReconcileResult& result, absl::Duration wait) {
  wait = std::max(wait, absl::ZeroDuration());
  if (!result.look_again_after || wait < *result.look_again_after) result.look_again_after = wait;
}

}  // namespace

TrainingJobReconciler::TrainingJobReconciler(Client& client, Clock& clock, JobInformers informers, EventRecorder& events, FanOut& fan_out,
                                             ProgressPoller& progress, JobMetrics& metrics, TrainingJobReconcilerOptions options)
    : client_(client),
      clock_(clock),
      informers_(informers),
      events_(events),
      fan_out_(fan_out),
      progress_(progress),
      metrics_(metrics),
      unwatched_(client, events),
      options_(options),
      debounce_(options.debounce) {}

void TrainingJobReconciler::Connect(WorkQueue& queue) {
  queue_ = &queue;
  informers_.jobs.AddHandler([&queue](const auto& before, const auto& after) {
    // Making the children of many new jobs takes long; the status of those that run must not wait for it.
    if (before == nullptr) {
      queue.AddToBacklog(after->meta.Key());
    } else {
      queue.Add(before->meta.Key());
    }
  });
  // The children of a job that is gone, or not seen yet, concern nobody: the job's own event comes, or came.
  const auto touch_job = [this, &queue](const ObjectMeta& child) {
    if (const std::string key = JobKeyOf(child); informers_.jobs.lister().Get(key) != nullptr) queue.Add(key);
  };
  informers_.pods.AddHandler([touch_job](const auto& before, const auto& after) {
    if (before && after && SameForPlan(*before, *after)) return;
    touch_job((after ? after : before)->meta);
  });
  const auto of_child = [touch_job](const auto& before, const auto& after) { touch_job((after ? after : before)->meta); };
  informers_.services.AddHandler(of_child);
  informers_.configs.AddHandler(of_child);
  if (informers_.nodes == nullptr) return;
  informers_.nodes->AddHandler([this, &queue](const auto& before, const auto& after) {
    if (after && (after->ready || (before && !before->ready))) return;
    const std::string& node = (after ? after : before)->meta.name;
    for (const auto& pod : informers_.pods.lister().All()) {
      if (pod->node == node && pod->meta.deletion_time) queue.Add(JobKeyOf(pod->meta));
    }
  });
}

absl::StatusOr<ReconcileResult> TrainingJobReconciler::Reconcile(const std::string& key) {
  const std::shared_ptr<const TrainingJob> cached = informers_.jobs.lister().Get(key);
  if (cached == nullptr) {
    progress_.Forget(key);
    metrics_.Gone(key);
    debounce_.Forget(key);
    unwatched_.Forget(key);
    MutexLock lock(mutex_);
    taken_.erase(key);
    return ReconcileResult{};
  }
  ReconcileResult result;
  const Plan plan = PlanFor(*cached, result);
  const bool told_before = plan.status_timing != StatusTiming::kAfterChildren;
  if (told_before) TY_RETURN_IF_ERROR(Tell(*cached, plan, result));
  if (plan.delete_job) {
    const auto deleted = client_.Delete(kTrainingJobs, cached->meta.name_space, cached->meta.name, {.uid = cached->meta.uid});
    if (!deleted.ok() && !absl::IsNotFound(deleted.status()) && !IsConflict(deleted.status())) return deleted.status();
    return ReconcileResult{};
  }
  const absl::Status made = CarryOut(*cached, plan);
  if (!told_before && (!made.ok() || !MayWaitForOthers(key, result))) {
    TY_RETURN_IF_ERROR(Tell(*cached, plan.creations.empty() ? plan : PlanFor(*cached, result), result));
  }
  TY_RETURN_IF_ERROR(made);
  // Own writes wake nobody: look once more at what they led to.
  if (!plan.deletions.empty()) {
    LookAgainIn(result, absl::ZeroDuration());
  } else if (!plan.creations.empty() || !plan.adopt.empty() || !plan.release.empty() || !plan.ensure.empty()) {
    LookAgainIn(result, options_.debounce.settle);
  }
  return result;
}

Plan TrainingJobReconciler::PlanFor(const TrainingJob& job, ReconcileResult& result) {
  const std::string key = job.meta.Key();
  Children children = Gather(job);
  WatchProgress(key, job, children);
  children.progress = progress_.Latest(key);
  const absl::Time now = clock_.Now();
  Plan plan = MakePlan(job, Observe(job, std::move(children)), now, options_.plan);
  if (plan.look_again_at) LookAgainIn(result, *plan.look_again_at - now);
  return plan;
}

bool TrainingJobReconciler::MayWaitForOthers(const std::string& key, ReconcileResult& result) {
  const size_t others = queue_ == nullptr ? 0 : queue_->BacklogDepth();
  if (others == 0) return false;
  const absl::Duration patience = debounce_.Patience(key, clock_.Monotonic());
  if (patience == absl::ZeroDuration()) return false;
  LookAgainIn(result, std::min(patience, TimeFor(others, key)));
  return true;
}

absl::Status TrainingJobReconciler::Tell(const TrainingJob& job, const Plan& plan, ReconcileResult& result) {
  TY_ASSIGN_OR_RETURN(const absl::Duration wait, WriteStatus(job, plan));
  if (wait > absl::ZeroDuration()) {
    LookAgainIn(result, wait);
    return absl::OkStatus();
  }
  for (const PlannedEvent& event : plan.events) RecordEvent(events_, job, event);
  return absl::OkStatus();
}

absl::Status TrainingJobReconciler::CarryOut(const TrainingJob& cached, const Plan& plan) {
  TrainingJob job = cached;
  if (plan.status) job.status = *plan.status;
  FirstError error;
  for (const ChildRef& child : plan.adopt) error.Add(Adopt(job, child));
  for (const ChildRef& child : plan.release) error.Add(Release(child, job));
  fan_out_.ForEach(plan.deletions.size(), [&](size_t i) { error.Add(Delete(job, plan.deletions[i])); });
  if (plan.update_config) error.Add(UpdateConfig(job));
  for (const ChildRef& child : plan.ensure) error.Add(Ensure(job, child));
  fan_out_.ForEach(plan.creations.size(), [&](size_t i) { error.Add(Create(job, plan.creations[i])); });
  return error.Get();
}

Children TrainingJobReconciler::Gather(const TrainingJob& job) {
  Children children;
  const std::string& ns = job.meta.name_space;
  children.pods = informers_.pods.lister().ByOwner(job.meta.uid);
  children.services = informers_.services.lister().ByOwner(job.meta.uid);
  children.configs = informers_.configs.lister().ByOwner(job.meta.uid);
  // What else has the name of a child: orphans to adopt, and strangers.
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
  add(children.configs, informers_.configs.lister(), ConfigMapName(job));
  if (informers_.nodes != nullptr) {
    for (const auto& pod : children.pods) {
      if (!pod->meta.deletion_time || pod->node.empty()) continue;
      const auto node = informers_.nodes->lister().Get(pod->node);
      if (node == nullptr || !node->ready) children.down_nodes.insert(pod->node);
    }
  }
  children.unwatched = unwatched_.Known(job);
  MutexLock lock(mutex_);
  const auto it = taken_.find(job.meta.Key());
  if (it == taken_.end()) return children;
  std::erase_if(it->second, [now = clock_.Monotonic()](const auto& entry) { return entry.second.until <= now; });
  for (const auto& [child, taken] : it->second) children.taken[child] = taken.holder;
  if (it->second.empty()) taken_.erase(it);
  return children;
}

void TrainingJobReconciler::WatchProgress(const std::string& key, const TrainingJob& job, const Children& children) {
  const std::string chief = ChildName(job, ChiefOf(job));
  for (const auto& pod : children.pods) {
    if (pod->meta.name != chief || pod->phase != PodPhase::kRunning || pod->ip.empty() || pod->meta.deletion_time) continue;
    if (job.spec.framework != Framework::kTrainyard || job.status.Finished()) continue;
    progress_.Watch(key, {job.meta.name_space, pod->meta.name, pod->ip, job.spec.network.port + 1});
    return;
  }
  progress_.Forget(key);
}

absl::StatusOr<absl::Duration> TrainingJobReconciler::WriteStatus(const TrainingJob& job, const Plan& plan) {
  const std::string key = job.meta.Key();
  if (!plan.status) {
    debounce_.Forget(key);
    metrics_.Seen(key, job, job.status);
    return absl::ZeroDuration();
  }
  if (plan.status_timing == StatusTiming::kSettled) {
    const absl::Duration wait = debounce_.Wait(key, *plan.status, clock_.Monotonic());
    if (wait > absl::ZeroDuration()) return wait;
  }
  auto written = client_.UpdateStatus(kTrainingJobs, StatusUpdateBody(job.meta, *plan.status));
  if (!written.ok()) {
    // Deleted meanwhile: the watch will say so.
    if (absl::IsNotFound(written.status())) return absl::Seconds(1);
    return written.status();
  }
  debounce_.Forget(key);
  informers_.jobs.ObserveWrite(*written);
  metrics_.Wrote(key, job, job.status, *plan.status);
  return absl::ZeroDuration();
}

absl::Status TrainingJobReconciler::Adopt(const TrainingJob& job, const ChildRef& child) {
  const json patch = {
      {"metadata", {{"uid", child.uid}, {"resourceVersion", child.resource_version}, {"ownerReferences", OwnerReferences(job)}}}};
  auto patched = client_.Patch(ResourceOf(child.kind, job), job.meta.name_space, child.name, PatchType::kMerge, patch);
  if (!patched.ok()) return absl::IsNotFound(patched.status()) ? absl::OkStatus() : patched.status();
  ObserveWrite(child.kind, *patched);
  RecordEvent(events_, job,
              {false, "Adopted", fmt::format("{} {} had no owner and this job's labels: it is adopted", KindName(child.kind), child.name)});
  return absl::OkStatus();
}

absl::Status TrainingJobReconciler::Release(const ChildRef& child, const TrainingJob& job) {
  const json patch = {{"metadata", {{"uid", child.uid}, {"resourceVersion", child.resource_version}, {"ownerReferences", nullptr}}}};
  auto patched = client_.Patch(ResourceOf(child.kind, job), job.meta.name_space, child.name, PatchType::kMerge, patch);
  if (!patched.ok()) return absl::IsNotFound(patched.status()) ? absl::OkStatus() : patched.status();
  ObserveWrite(child.kind, *patched);
  RecordEvent(
      events_, job,
      {true, "Released",
       fmt::format("the labels of {} {} are not those of a child of this job any more: it is released", KindName(child.kind), child.name)});
  return absl::OkStatus();
}

absl::Status TrainingJobReconciler::Delete(const TrainingJob& job, const Deletion& deletion) {
  const ChildRef& child = deletion.child;
  if (IsUnwatched(child.kind)) return unwatched_.Delete(job, child);
  DeleteOptions options{.uid = child.uid};
  if (deletion.force) options.grace_period_seconds = 0;
  auto left = client_.Delete(ResourceOf(child.kind, job), job.meta.name_space, child.name, options);
  const bool gone = left.ok() ? left->is_null() : absl::IsNotFound(left.status());
  if (gone) {
    const std::string key = ObjectKey(job.meta.name_space, child.name);
    if (child.kind == ChildKind::kPod) informers_.pods.ObserveDelete(key, child.uid);
    if (child.kind == ChildKind::kService) informers_.services.ObserveDelete(key, child.uid);
    if (child.kind == ChildKind::kConfigMap) informers_.configs.ObserveDelete(key, child.uid);
    return absl::OkStatus();
  }
  // Another object has the name by now: the cache will see it.
  if (!left.ok()) return IsConflict(left.status()) ? absl::OkStatus() : left.status();
  ObserveWrite(child.kind, *left);
  return absl::OkStatus();
}

absl::Status TrainingJobReconciler::UpdateConfig(const TrainingJob& job) {
  auto updated = client_.Update(kConfigMaps, BuildConfigMap(job, job.status.hosts_epoch));
  if (!updated.ok()) return absl::IsNotFound(updated.status()) ? absl::OkStatus() : updated.status();
  ObserveWrite(ChildKind::kConfigMap, *updated);
  return absl::OkStatus();
}

absl::Status TrainingJobReconciler::Ensure(const TrainingJob& job, const ChildRef& child) {
  absl::Status found = unwatched_.PutRight(job, child);
  return absl::IsNotFound(found) ? Create(job, child) : found;
}

absl::Status TrainingJobReconciler::Create(const TrainingJob& job, const ChildRef& child) {
  TY_ASSIGN_OR_RETURN(const json object, BuildChild(job, child));
  auto created = client_.Create(ResourceOf(child.kind, job), job.meta.name_space, object);
  if (created.ok()) {
    if (IsUnwatched(child.kind)) unwatched_.Made(job, child.kind, *created);
    ObserveWrite(child.kind, *created);
    return absl::OkStatus();
  }
  if (absl::IsAlreadyExists(created.status())) return IsUnwatched(child.kind) ? unwatched_.PutRight(job, child) : Examine(job, child);
  // The namespace is being deleted, and the job with it.
  if (IsNamespaceTerminating(created.status())) return absl::OkStatus();
  if (IsInvalid(created.status()) || IsForbidden(created.status())) {
    RecordEvent(
        events_, job,
        {true, "CannotCreate", fmt::format("{} {}: {}", KindName(child.kind), child.name, std::string(created.status().message()))});
  }
  return created.status();
}

absl::Status TrainingJobReconciler::Examine(const TrainingJob& job, const ChildRef& child) {
  auto object = client_.Get(ResourceOf(child.kind, job), job.meta.name_space, child.name);
  if (!object.ok()) return object.status();  // gone again: the next try creates it
  TY_ASSIGN_OR_RETURN(const ObjectMeta meta, MetaFromJson(*object));
  if (meta.controller.uid == job.meta.uid) {
    const bool labelled = meta.labels.job_uid == job.meta.uid && meta.labels.role == (child.replica ? Name(child.replica->role) : "");
    if (labelled) {
      ObserveWrite(child.kind, *object);
      return absl::OkStatus();
    }
    // Ours, but somebody took its labels away, so that no cache sees it.
    const json patch = {{"metadata", {{"uid", meta.uid}, {"labels", ChildLabelsJson(job, child.replica)}}}};
    auto patched = client_.Patch(ResourceOf(child.kind, job), job.meta.name_space, child.name, PatchType::kMerge, patch);
    if (patched.ok()) ObserveWrite(child.kind, *patched);
    return patched.status();
  }
  if (!meta.labels.job_uid.empty()) {
    ObserveWrite(child.kind, *object);  // the cache's affair: an orphan to adopt, or what an earlier job left
    return absl::OkStatus();
  }
  const std::string holder = meta.controller.uid.empty() ? "not controlled by this job"
                                                         : fmt::format("controlled by {} {}", meta.controller.kind, meta.controller.name);
  MutexLock lock(mutex_);
  taken_[job.meta.Key()][{child.kind, child.name}] = {holder, clock_.Monotonic() + options_.plan.retry_taken_after};
  return absl::OkStatus();
}

void TrainingJobReconciler::ObserveWrite(ChildKind kind, const json& object) {
  if (kind == ChildKind::kPod) informers_.pods.ObserveWrite(object);
  if (kind == ChildKind::kService) informers_.services.ObserveWrite(object);
  if (kind == ChildKind::kConfigMap) informers_.configs.ObserveWrite(object);
}

}  // namespace trainyard::control
