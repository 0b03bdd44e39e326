#include "operator/trainingjob/unwatched_children.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "operator/api/json_read.h"
#include "operator/base/status_macros.h"
#include "operator/children/child_kinds.h"
#include "operator/children/child_meta.h"
#include "operator/children/pod_group_builder.h"
#include "operator/kube/errors.h"
#include "operator/trainingjob/job_events.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

Unwatched Found(Unwatched::Holder holder, const TrainingJob& job, ChildKind kind, const json& object) {
  return {holder, kind == ChildKind::kPodGroup ? MinMemberOf(job, object) : 0};
}

// Whether `object` has all members of `wanted` as they are there.
bool Holds(const json& object, const json& wanted) {
  return std::ranges::all_of(wanted.items(), [&](const auto& item) { return json_read::Get(object, item.key()) == item.value(); });
}

// The object is about to go: it is being deleted, or the garbage collector takes it.
bool IsLeftover(const TrainingJob& job, const ObjectMeta& meta) {
  const bool of_earlier_job = meta.controller.kind == kKind && meta.controller.name == job.meta.name && meta.controller.uid != job.meta.uid;
  return meta.deletion_time.has_value() || of_earlier_job;
}

bool IsNativeGroup(const TrainingJob& job, ChildKind kind) {
  return kind == ChildKind::kPodGroup && job.spec.run_policy.scheduling.gang == Gang::kNative;
}

}  // namespace

std::map<ChildKind, Unwatched> UnwatchedChildren::Known(const TrainingJob& job) {
  MutexLock lock(mutex_);
  const auto it = jobs_.find(job.meta.Key());
  return it != jobs_.end() && it->second.uid == job.meta.uid ? it->second.children : std::map<ChildKind, Unwatched>{};
}

void UnwatchedChildren::Forget(const std::string& job_key) {
  MutexLock lock(mutex_);
  jobs_.erase(job_key);
}

void UnwatchedChildren::Made(const TrainingJob& job, ChildKind kind, const json& object) {
  Remember(job, kind, Found(Unwatched::Holder::kJob, job, kind, object));
}

absl::Status UnwatchedChildren::PutRight(const TrainingJob& job, const ChildRef& child) {
  const Resource& resource = TraitsOf(child.kind).resource(job);
  auto object = client_.Get(resource, job.meta.name_space, child.name);
  if (IsForbidden(object.status())) {
    LeaveAlone(job, child.kind, "Forbidden", std::string(object.status().message()));
    return absl::OkStatus();
  }
  if (!object.ok()) return object.status();
  TY_ASSIGN_OR_RETURN(const ObjectMeta meta, MetaFromJson(*object));
  if (IsLeftover(job, meta)) {
    // Kubernetes keeps it while the job's pods name it, so they start by its number.
    if (const json scaled = ScaledPodGroupSpec(job); IsNativeGroup(job, child.kind) && !Holds(json_read::Get(*object, "spec"), scaled)) {
      const json patch = {{"metadata", {{"uid", meta.uid}}}, {"spec", scaled}};
      object = client_.Patch(resource, job.meta.name_space, child.name, PatchType::kMerge, patch);
      if (!object.ok()) return object.status();
    }
    Remember(job, child.kind, Found(Unwatched::Holder::kLeaving, job, child.kind, *object));
    return absl::OkStatus();
  }
  if (meta.controller.uid != job.meta.uid) {
    LeaveAlone(job, child.kind, "NameTaken",
               fmt::format("{} {} exists and does not belong to this job; it is used as it is", TraitsOf(child.kind).name, child.name));
    return absl::OkStatus();
  }
  json patch = json::object();
  if (meta.labels.job_uid != job.meta.uid) patch["metadata"]["labels"] = ChildLabelsJson(job, std::nullopt);
  if (child.kind == ChildKind::kPodGroup) {
    json scaled = ScaledPodGroupSpec(job);
    if (!Holds(json_read::Get(*object, "spec"), scaled)) patch["spec"] = std::move(scaled);
  }
  if (!patch.empty()) {
    patch["metadata"]["uid"] = meta.uid;
    object = client_.Patch(resource, job.meta.name_space, child.name, PatchType::kMerge, patch);
    if (!object.ok()) return object.status();
  }
  Remember(job, child.kind, Found(Unwatched::Holder::kJob, job, child.kind, *object));
  return absl::OkStatus();
}

absl::Status UnwatchedChildren::Delete(const TrainingJob& job, const ChildRef& child) {
  const Resource& resource = TraitsOf(child.kind).resource(job);
  const auto object = client_.Get(resource, job.meta.name_space, child.name);
  absl::Status status = object.status();
  if (object.ok()) {
    TY_ASSIGN_OR_RETURN(const ObjectMeta meta, MetaFromJson(*object));
    const bool leftover = IsLeftover(job, meta);
    if (!leftover && meta.controller.uid != job.meta.uid) {
      Remember(job, child.kind, {.holder = Unwatched::Holder::kOther});
      return absl::OkStatus();
    }
    if (!leftover) status = client_.Delete(resource, job.meta.name_space, child.name, {.uid = meta.uid}).status();
  }
  if (IsForbidden(status)) {
    LeaveAlone(job, child.kind, "Forbidden", std::string(status.message()));
    return absl::OkStatus();
  }
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  Remember(job, child.kind, {});
  return absl::OkStatus();
}

void UnwatchedChildren::Remember(const TrainingJob& job, ChildKind kind, Unwatched known) {
  MutexLock lock(mutex_);
  OfJob& of_job = jobs_[job.meta.Key()];
  if (of_job.uid != job.meta.uid) of_job = {job.meta.uid, {}};
  of_job.children[kind] = known;
}

void UnwatchedChildren::LeaveAlone(const TrainingJob& job, ChildKind kind, std::string reason, std::string note) {
  const std::map<ChildKind, Unwatched> before = Known(job);
  const auto known = before.find(kind);
  if (known != before.end() && known->second.holder == Unwatched::Holder::kOther) return;  // told already
  Remember(job, kind, {.holder = Unwatched::Holder::kOther});
  RecordEvent(events_, job, {true, std::move(reason), std::move(note)});
}

}  // namespace trainyard::control
