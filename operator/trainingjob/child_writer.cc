#include "operator/trainingjob/child_writer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "operator/base/log.h"
#include "operator/base/mutex.h"
#include "operator/base/status_macros.h"
#include "operator/children/child_meta.h"
#include "operator/children/config_builder.h"
#include "operator/children/serve_builder.h"
#include "operator/kube/errors.h"
#include "operator/trainingjob/child_secrets.h"
#include "operator/trainingjob/creation_round.h"
#include "operator/trainingjob/job_events.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

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

void Note(const TrainingJob& job, Refusal refusal, Refusals& refusals) {
  const std::string description = DescribeRefusal(job, refusal);
  if (refusals.Note(job, std::move(refusal))) LogInfo("{}: {}", job.meta.Key(), description);
}

// A child that is gone needs nothing any more.
absl::Status UnlessGone(const absl::Status& status) { return absl::IsNotFound(status) ? absl::OkStatus() : status; }

}  // namespace

ChildWriter::ChildWriter(Client& client, Clock& clock, ChildCaches& caches, EventRecorder& events, FanOut& fan_out,
                         absl::Duration retry_taken_after)
    : client_(client),
      caches_(caches),
      events_(events),
      fan_out_(fan_out),
      unwatched_(client, events),
      refusals_(clock),
      serving_refusals_(clock),
      servings_(clock),
      taken_(clock, retry_taken_after) {}

void ChildWriter::AddMemory(const TrainingJob& job, Children& children) {
  for (const auto& config : children.configs) {
    if (config->meta.controller.uid == job.meta.uid) keys_.Known(job.meta.uid, config->job_key);
  }
  children.unwatched = unwatched_.Known(job);
  children.refusal = refusals_.Known(job);
  children.taken = taken_.Known(job.meta.Key());
  children.serving.refusal = serving_refusals_.Known(job);
  children.serving.applied = servings_.Known(job);
}

absl::Status ChildWriter::LookForLostPods(const TrainingJob& job) {
  if (job.status.Finished() || first_look_.IsDone(job)) return absl::OkStatus();
  const std::vector<ChildRef> pods = OutOfSight(job, caches_.Gather(job).pods);
  FirstError error;
  fan_out_.ForEach(pods.size(), [&](size_t i) {
    const absl::Status found = Examine(job, pods[i]);
    if (!absl::IsNotFound(found)) error.Add(found);
  });
  if (error.Get().ok()) first_look_.Done(job);
  return error.Get();
}

void ChildWriter::Forget(const std::string& job_key) {
  first_look_.Forget(job_key);
  unwatched_.Forget(job_key);
  refusals_.Forget(job_key);
  serving_refusals_.Forget(job_key);
  servings_.Forget(job_key);
  taken_.Forget(job_key);
}

absl::Status ChildWriter::CarryOut(const TrainingJob& cached, const Plan& plan) {
  TrainingJob job = cached;
  if (plan.status) job.status = *plan.status;
  FirstError error;
  for (const ChildRef& child : plan.adopt) error.Add(Adopt(job, child));
  for (const ChildRef& child : plan.relabel) error.Add(GiveLabelsBack(job, child));
  for (const ChildRef& child : plan.release) error.Add(Release(job, child));
  CreationRound round(fan_out_, /*careful=*/IsRefused(job));
  // Before pods go: a scheduler looks at a gang again when it loses a pod, and is to find the new
  // number in its PodGroup.
  round.Run(plan.ensure, [&](const ChildRef& child) { return Ensure(job, child); });
  fan_out_.ForEach(plan.deletions.size(), [&](size_t i) { error.Add(Delete(job, plan.deletions[i])); });
  for (const ChildRef& child : plan.end_group) error.Add(EndGroup(job, child));
  if (plan.update_config) error.Add(UpdateConfig(job));
  round.Run(plan.creations, [&](const ChildRef& child) { return Create(job, child); });
  if (!plan.creations.empty() || !plan.ensure.empty()) error.Add(End(job, round, refusals_));
  error.Add(MakeServing(job, plan.serving));
  return error.Get();
}

absl::Status ChildWriter::MakeServing(const TrainingJob& job, const ServingActions& actions) {
  if (actions.update) TY_RETURN_IF_ERROR(UpdateServing(job, actions.restores));
  if (actions.creations.empty()) return absl::OkStatus();
  CreationRound round(fan_out_, /*careful=*/serving_refusals_.Known(job).has_value());
  round.Run(actions.creations, [&](const ChildRef& child) { return Create(job, child); });
  return End(job, round, serving_refusals_);
}

absl::Status ChildWriter::End(const TrainingJob& job, const CreationRound& round, Refusals& refusals) {
  if (std::optional<Refusal> refusal = round.refusal()) {
    Note(job, *std::move(refusal), refusals);
  } else if (round.error().ok()) {
    refusals.Forget(job.meta.Key());
  }
  return round.error();
}

absl::Status ChildWriter::Adopt(const TrainingJob& job, const ChildRef& child) {
  return PatchOwners(job, child, OwnerReferences(job),
                     {false, "Adopted",
                      fmt::format("{} {} has this job's labels and had no owner: it is adopted", TraitsOf(child.kind).name, child.name)});
}

absl::Status ChildWriter::GiveLabelsBack(const TrainingJob& job, const ChildRef& child) {
  const json patch = {{"metadata", {{"uid", child.uid}, {"labels", ChildLabelsJson(job, child.replica)}}}};
  auto patched = client_.Patch(TraitsOf(child.kind).resource(job), job.meta.name_space, child.name, PatchType::kMerge, patch);
  if (!patched.ok()) return UnlessGone(patched.status());
  caches_.ObserveWrite(child.kind, *patched);
  return absl::OkStatus();
}

absl::Status ChildWriter::Release(const TrainingJob& job, const ChildRef& child) {
  return PatchOwners(
      job, child, json::array({{{"uid", job.meta.uid}, {"$patch", "delete"}}}),
      {true, "Released",
       fmt::format("{} {} no longer has the labels of a child of this job: it is released", TraitsOf(child.kind).name, child.name)});
}

absl::Status ChildWriter::PatchOwners(const TrainingJob& job, const ChildRef& child, const json& owners, const PlannedEvent& done) {
  const json patch = {{"metadata", {{"uid", child.uid}, {"resourceVersion", child.resource_version}, {"ownerReferences", owners}}}};
  auto patched = client_.Patch(TraitsOf(child.kind).resource(job), job.meta.name_space, child.name, PatchType::kStrategic, patch);
  if (!patched.ok()) return UnlessGone(patched.status());
  caches_.ObserveWrite(child.kind, *patched);
  RecordEvent(events_, job, done);
  return absl::OkStatus();
}

absl::Status ChildWriter::Delete(const TrainingJob& job, const Deletion& deletion) {
  const ChildRef& child = deletion.child;
  const ChildTraits& traits = TraitsOf(child.kind);
  if (!traits.watched) return unwatched_.Delete(job, child);
  DeleteOptions options{.uid = child.uid};
  if (deletion.force) options.grace_period_seconds = 0;
  auto left = client_.Delete(traits.resource(job), job.meta.name_space, child.name, options);
  const bool gone = left.ok() ? left->is_null() : absl::IsNotFound(left.status());
  if (gone) {
    caches_.ObserveDelete(child.kind, ObjectKey(job.meta.name_space, child.name), child.uid);
    return absl::OkStatus();
  }
  // Another object has the name by now: the cache will see it.
  if (!left.ok()) return IsConflict(left.status()) ? absl::OkStatus() : left.status();
  caches_.ObserveWrite(child.kind, *left);
  return absl::OkStatus();
}

// https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/#4-requesting-replacement-pods-in-a-group
absl::Status ChildWriter::EndGroup(const TrainingJob& job, const ChildRef& child) {
  const json patch = {{"metadata", {{"uid", child.uid}, {"annotations", {{"kueue.x-k8s.io/retriable-in-group", "false"}}}}}};
  const auto patched = client_.Patch(kPods, job.meta.name_space, child.name, PatchType::kMerge, patch);
  return UnlessGone(patched.status());
}

absl::Status ChildWriter::LetGo(const Pod& pod) {
  const json patch = {{"metadata", {{"uid", pod.meta.uid}, {"$deleteFromPrimitiveList/finalizers", {kKueueFinalizer}}}}};
  auto patched = client_.Patch(kPods, pod.meta.name_space, pod.meta.name, PatchType::kStrategic, patch);
  if (IsConflict(patched.status())) return absl::OkStatus();  // another pod has the name by now
  if (!patched.ok()) return UnlessGone(patched.status());
  // The object of the answer may be gone already: the watch tells.
  return absl::OkStatus();
}

absl::Status ChildWriter::UpdateConfig(const TrainingJob& job) {
  const auto cached = caches_.ConfigOf(job);
  if (cached == nullptr) return absl::OkStatus();  // gone: the next look creates it
  json object = BuildConfigMap(job, job.status.hosts_epoch, cached->job_key);
  object["metadata"]["resourceVersion"] = cached->meta.resource_version;
  auto updated = client_.Update(kConfigMaps, object);
  if (!updated.ok()) return UnlessGone(updated.status());
  caches_.ObserveWrite(ChildKind::kConfigMap, *updated);
  return absl::OkStatus();
}

absl::Status ChildWriter::UpdateServing(const TrainingJob& job, bool restores) {
  const auto cached = caches_.ServeDeploymentOf(job);
  if (cached == nullptr) return absl::OkStatus();  // gone: the next look creates it
  // All of its spec: what others have added goes. The uid makes it a conflict with another object
  // of that name.
  const json patch = json::array({{{"op", "replace"}, {"path", "/metadata/uid"}, {"value", cached->meta.uid}},
                                  {{"op", "replace"}, {"path", "/spec"}, {"value", BuildServeDeployment(job)["spec"]}}});
  auto updated = client_.Patch(kDeployments, job.meta.name_space, cached->meta.name, PatchType::kJson, patch);
  if (IsRefusal(updated.status()) && !absl::IsNotFound(updated.status())) {
    Refusal refusal{.child = {ChildKind::kDeployment, cached->meta.name, "", "", std::nullopt},
                    .code = HttpCode(updated.status()),
                    .edits = true,
                    .words = std::string(ServerWords(updated.status()))};
    Note(job, std::move(refusal), serving_refusals_);
    return absl::OkStatus();
  }
  if (IsConflict(updated.status())) return absl::OkStatus();  // another object has the name by now: the cache will see it
  if (!updated.ok()) return UnlessGone(updated.status());
  serving_refusals_.Forget(job.meta.Key());
  servings_.Wrote(job, *updated);
  caches_.ObserveWrite(ChildKind::kDeployment, *updated);
  if (restores) {
    RecordEvent(
        events_, job,
        {true, "ServingRestored", fmt::format("Deployment {} was edited: it is put back; edit spec.serve of the job", cached->meta.name)});
  }
  return absl::OkStatus();
}

absl::Status ChildWriter::Ensure(const TrainingJob& job, const ChildRef& child) {
  absl::Status found = unwatched_.PutRight(job, child);
  return absl::IsNotFound(found) ? Create(job, child) : found;
}

absl::Status ChildWriter::Create(const TrainingJob& job, const ChildRef& child) {
  const ChildTraits& traits = TraitsOf(child.kind);
  // AddMemory has seen the key that there is.
  TY_ASSIGN_OR_RETURN(const ChildSecrets secrets, DrawSecrets(job, child.kind, keys_.Known(job.meta.uid, "")));
  auto created = client_.Create(traits.resource(job), job.meta.name_space, traits.build(job, child, secrets));
  if (created.ok()) {
    if (!traits.watched) unwatched_.Made(job, child.kind, *created);
    if (child.kind == ChildKind::kDeployment) servings_.Wrote(job, *created);
    caches_.ObserveWrite(child.kind, *created);
    return absl::OkStatus();
  }
  if (absl::IsAlreadyExists(created.status())) return traits.watched ? Examine(job, child) : unwatched_.PutRight(job, child);
  // The namespace is being deleted, and the job with it.
  if (IsNamespaceTerminating(created.status())) return absl::OkStatus();
  return created.status();
}

absl::Status ChildWriter::Examine(const TrainingJob& job, const ChildRef& child) {
  auto object = client_.Get(TraitsOf(child.kind).resource(job), job.meta.name_space, child.name);
  if (!object.ok()) return object.status();  // gone again: the next try creates it
  TY_ASSIGN_OR_RETURN(const ObjectMeta meta, MetaFromJson(*object));
  if (meta.controller.uid == job.meta.uid) {
    // Ours, but without its labels, so that no cache sees it.
    if (FitOf(meta.labels, job, child.replica) == LabelFit::kIncomplete) {
      return GiveLabelsBack(job, {child.kind, meta.name, meta.uid, meta.resource_version, child.replica});
    }
    caches_.ObserveWrite(child.kind, *object);  // with another's labels the next look releases it
    return absl::OkStatus();
  }
  if (!meta.labels.job_uid.empty()) {
    caches_.ObserveWrite(child.kind, *object);  // the cache's affair: an orphan to adopt, or what an earlier job left
    return absl::OkStatus();
  }
  const bool controlled = !meta.controller.uid.empty();
  taken_.Note(job.meta.Key(), child,
              controlled ? fmt::format("controlled by {} {}", meta.controller.kind, meta.controller.name) : "not controlled by this job");
  return absl::OkStatus();
}

}  // namespace trainyard::control
