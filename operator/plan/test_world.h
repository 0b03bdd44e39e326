// World: a job, its children and the time around MakePlan, as tests move them.
#pragma once

#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "operator/children/child_kinds.h"
#include "operator/children/config_builder.h"
#include "operator/children/pod_group_builder.h"
#include "operator/children/test_makers.h"
#include "operator/plan/accepted_spec.h"
#include "operator/plan/observed.h"
#include "operator/plan/plan.h"

namespace trainyard::control {

// A small world around MakePlan: keeps status and pods from one look to the next, and moves time.
class World {
 public:
  explicit World(const MakeJob& maker) : maker_(maker), job_(maker.Build()) {}

  World& Has(const MakePod& pod) {
    pods_[pod.id()] = std::make_shared<const Pod>(pod.Build());
    return *this;
  }
  World& Loses(Role role, int index) {
    pods_.erase({role, index});
    return *this;
  }
  World& Passes(absl::Duration time) {
    now_ += time;
    return *this;
  }
  // The user edits the spec.
  World& Edits(const MakeJob& maker) {
    const TrainingJobStatus status = job_.status;
    const int64_t generation = job_.meta.generation + 1;
    job_ = maker.Build();
    job_.meta.generation = generation;
    job_.status = status;
    return *this;
  }

  // Annotations have no generation.
  World& EditsWithoutGeneration(const MakeJob& maker) {
    Edits(maker);
    --job_.meta.generation;
    return *this;
  }

  // One look: the plan. Its status is kept; its deletions are done; its creations are made as
  // pending pods.
  Plan Look() {
    Plan plan = Peek();
    hosts_seen_ = plan.hosts_seen;
    if (plan.status) job_.status = Stored(*plan.status);
    for (const Deletion& deletion : plan.deletions) {
      if (deletion.child.kind == ChildKind::kPod) pods_.erase(*deletion.child.replica);
      if (deletion.child.kind == ChildKind::kService) services_.erase(deletion.child.name);
      if (deletion.child.kind == ChildKind::kConfigMap) config_ = nullptr;
      if (!TraitsOf(deletion.child.kind).watched) unwatched_[deletion.child.kind] = {};
    }
    for (const ChildRef& child : plan.ensure) StoreUnwatched(child.kind);
    for (const ChildRef& child : plan.creations) {
      if (child.kind == ChildKind::kPod) {
        Has(MakePod(child.replica->role, child.replica->index).Uid(fmt::format("{:08x}-0000-{}", ++uids_, child.name)));
      }
      if (child.kind == ChildKind::kService)
        services_[child.name] = {ChildKind::kService, child.name, child.name + "-uid", "3", child.replica};
      if (child.kind == ChildKind::kConfigMap) StoreConfig();
      if (!TraitsOf(child.kind).watched) StoreUnwatched(child.kind);
    }
    if (plan.update_config) StoreConfig();
    return plan;
  }
  // Looks until nothing more is to be done.
  World& Settle() {
    for (int i = 0; i < 10; ++i) {
      if (Look().Empty()) break;
    }
    return *this;
  }
  // The plan without doing it, as if the operator were killed right after deciding.
  Plan Peek() const {
    const std::optional<TrainingJob> accepted = LastAccepted(job_);
    return MakePlan(accepted ? *accepted : job_, Seen(), now_, options);
  }

  Observed Seen() const {
    Observed observed = extra;
    observed.pods = pods_;
    observed.services = services_;
    observed.config = config_;
    observed.unwatched = unwatched_;
    observed.hosts_seen = hosts_seen_;
    return observed;
  }
  // The operator was killed before it could write one.
  World& ForgetsStatus() {
    job_.status = {};
    return *this;
  }
  // The operator starts anew: it does not know the children that no cache holds.
  World& Restarts() {
    unwatched_.clear();
    hosts_seen_.reset();
    return *this;
  }
  // A foreign object has the name of the job's Secret or PodGroup.
  World& IsForeign(ChildKind kind) {
    unwatched_[kind] = {.holder = Unwatched::Holder::kOther};
    return *this;
  }
  // It is being deleted, or an earlier job's.
  World& IsLeaving(ChildKind kind, int min_member) {
    unwatched_[kind] = {.holder = Unwatched::Holder::kLeaving, .min_member = min_member};
    return *this;
  }
  World& AllReady() {
    for (auto& [id, pod] : pods_) {
      Pod ready = *pod;
      ready.phase = PodPhase::kRunning;
      ready.ready = true;
      ready.containers = {{.name = "trainer", .ready = true, .running_since = now_}};
      pod = std::make_shared<const Pod>(ready);
    }
    return *this;
  }
  World& RunsReady() {
    for (int i = 0; i < 4; ++i) Settle().AllReady();
    return Settle();
  }
  // Changes the pod of a replica that exists.
  template <typename Change>
  World& ChangePod(Role role, int index, const Change& change) {
    Pod pod = *pods_.at({role, index});
    change(pod);
    pods_[{role, index}] = std::make_shared<const Pod>(pod);
    return *this;
  }
  World& Exits(Role role, int index, int code, const std::string& message = "") {
    return ChangePod(role, index, [&](Pod& pod) {
      const std::string uid = pod.meta.uid;
      pod = MakePod(role, index).Uid(uid).Exited(code, message).Build();
    });
  }

  const TrainingJob& job() const { return job_; }
  const TrainingJobStatus& status() const { return job_.status; }
  const std::map<ReplicaId, std::shared_ptr<const Pod>>& pods() const { return pods_; }
  absl::Time now() const { return now_; }

  PlanOptions options;
  Observed extra;  // what else is seen: taken names, down nodes, progress

 private:
  // As it comes back from the API server.
  static TrainingJobStatus Stored(const TrainingJobStatus& status) { return StatusFromJson(StatusToJson(status)); }
  void StoreConfig() {
    ConfigMap config;
    config.meta.name = "mnist-cluster";
    config.meta.resource_version = fmt::format("{}", ++versions_);
    const std::optional<TrainingJob> accepted = LastAccepted(job_);
    config.content_hash = ConfigMap::ContentHash(BuildConfigData(accepted ? *accepted : job_, job_.status.hosts_epoch, ""));
    config_ = std::make_shared<const ConfigMap>(config);
  }
  void StoreUnwatched(ChildKind kind) {
    Unwatched& known = unwatched_[kind];
    if (known.holder == Unwatched::Holder::kOther) return;
    known = {Unwatched::Holder::kJob, kind == ChildKind::kPodGroup ? MinMember(job_) : 0};
  }

  MakeJob maker_;
  TrainingJob job_;
  std::map<ReplicaId, std::shared_ptr<const Pod>> pods_;
  std::map<std::string, ChildRef> services_;
  std::shared_ptr<const ConfigMap> config_;
  std::map<ChildKind, Unwatched> unwatched_;
  absl::Time now_ = kStart;
  std::optional<HostListsSeen> hosts_seen_;
  int uids_ = 0;
  int versions_ = 0;
};

inline std::vector<std::string> Created(const Plan& plan, ChildKind kind = ChildKind::kPod) {
  std::vector<std::string> names;
  for (const ChildRef& child : plan.creations) {
    if (child.kind == kind) names.push_back(child.name);
  }
  return names;
}

inline std::vector<std::string> Ensured(const Plan& plan, ChildKind kind) {
  std::vector<std::string> names;
  for (const ChildRef& child : plan.ensure) {
    if (child.kind == kind) names.push_back(child.name);
  }
  return names;
}

inline std::vector<std::string> Deleted(const Plan& plan, ChildKind kind = ChildKind::kPod) {
  std::vector<std::string> names;
  for (const Deletion& deletion : plan.deletions) {
    if (deletion.child.kind == kind) names.push_back(deletion.child.name);
  }
  return names;
}

inline std::vector<std::string> EventReasons(const Plan& plan) {
  std::vector<std::string> reasons;
  for (const PlannedEvent& event : plan.events) reasons.push_back(event.reason);
  return reasons;
}

inline MakeJob OneServerTwoWorkers() {
  return MakeJob().Replicas("ps", 1).Replicas("worker", 2).Claim("data").Policy("startPolicy", "Any");
}

inline std::string ReasonOf(const World& world, std::string_view condition) {
  const Condition* found = world.status().Find(condition);
  return found == nullptr ? "" : found->reason;
}

}  // namespace trainyard::control
