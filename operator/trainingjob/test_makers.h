// Fluent makers of test objects: each test shows only what matters to it.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "operator/api/core.h"
#include "operator/api/validation.h"
#include "operator/base/clock.h"
#include "operator/trainingjob/config_builder.h"
#include "operator/trainingjob/observed.h"
#include "operator/trainingjob/plan.h"
#include "operator/trainingjob/pod_group_builder.h"

namespace trainyard::control {

inline const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);

// A TrainingJob "default/mnist" with uid "job-uid".
class MakeJob {
 public:
  MakeJob() {
    object_ = {{"apiVersion", kApiVersion},
               {"kind", kKind},
               {"metadata",
                {{"name", "mnist"},
                 {"namespace", "default"},
                 {"uid", "job-uid"},
                 {"resourceVersion", "7"},
                 {"generation", 1},
                 {"creationTimestamp", FormatTimestamp(kStart)}}},
               {"spec", nlohmann::json::object()}};
  }
  MakeJob& Name(const std::string& name) { return Set("/metadata/name", name); }
  MakeJob& Replicas(const std::string& role, int count) { return Set("/spec/" + role + "/replicas", count); }
  MakeJob& Restart(const std::string& role, const std::string& policy) { return Set("/spec/" + role + "/restartPolicy", policy); }
  MakeJob& Framework(const std::string& name) { return Set("/spec/framework", name).Set("/spec/image", "me/image:1"); }
  MakeJob& Policy(const std::string& field, nlohmann::json value) { return Set("/spec/runPolicy/" + field, std::move(value)); }
  MakeJob& Template(const std::string& role, nlohmann::json value) { return Set("/spec/" + role + "/template", std::move(value)); }
  MakeJob& Claim(const std::string& name) { return Set("/spec/storage/claimName", name); }
  MakeJob& Set(const std::string& pointer, nlohmann::json value) {
    object_[nlohmann::json::json_pointer(pointer)] = std::move(value);
    return *this;
  }
  const nlohmann::json& Object() const { return object_; }
  TrainingJob Build() const { return *DecodeJob({}, object_); }

 private:
  nlohmann::json object_;
};

// A pod of that job, as the kubelet would report it.
class MakePod {
 public:
  MakePod(Role role, int index) : id_{role, index} {
    const std::string name = "mnist-" + control::Name(id_);
    pod_.meta.name = name;
    pod_.meta.name_space = "default";
    pod_.meta.uid = name + "-uid-1";
    pod_.meta.resource_version = "9";
    pod_.meta.creation_time = kStart;
    pod_.meta.controller = {std::string(kKind), "mnist", "job-uid"};
    pod_.meta.labels = {"mnist", "job-uid", std::string(control::Name(role)), std::to_string(index)};
    pod_.node = "node-1";
    pod_.main_container = "trainer";
  }
  MakePod& Uid(const std::string& uid) {
    pod_.meta.uid = uid;
    return *this;
  }
  MakePod& Ready() {
    pod_.phase = PodPhase::kRunning;
    pod_.ready = true;
    Trainer().running_since = kStart;
    return *this;
  }
  MakePod& Running() {
    pod_.phase = PodPhase::kRunning;
    Trainer().running_since = kStart;
    return *this;
  }
  MakePod& Exited(int code, const std::string& message = "") {
    pod_.phase = code == 0 ? PodPhase::kSucceeded : PodPhase::kFailed;
    pod_.ready = false;
    Trainer().running_since.reset();
    Trainer().terminated = Termination{.exit_code = code, .reason = code == 0 ? "Completed" : "Error", .message = message};
    return *this;
  }
  MakePod& RestartedByKubelet(int times, int code) {
    Trainer().restart_count = times;
    Trainer().last_terminated = Termination{.exit_code = code, .reason = "Error", .message = "last words"};
    return *this;
  }
  MakePod& Evicted() {
    pod_.phase = PodPhase::kFailed;
    pod_.reason = "Evicted";
    pod_.message = "The node was low on resource: memory.";
    pod_.ready = false;
    return *this;
  }
  MakePod& Terminating(absl::Time at = kStart) {
    pod_.meta.deletion_time = at;
    return *this;
  }
  MakePod& Waiting(const std::string& reason) {
    Trainer().waiting_reason = reason;
    Trainer().waiting_message = "because";
    return *this;
  }
  Pod& Raw() { return pod_; }
  const ReplicaId& id() const { return id_; }
  Pod Build() const { return pod_; }

 private:
  ContainerStatus& Trainer() {
    if (pod_.containers.empty()) pod_.containers.push_back({.name = "trainer"});
    return pod_.containers[0];
  }
  ReplicaId id_;
  Pod pod_;
};

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

  // One look: the plan. Its status is kept; its deletions are done; its creations are made as pending pods.
  Plan Look() {
    Plan plan = Peek();
    if (plan.status) job_.status = Stored(*plan.status);
    for (const Deletion& deletion : plan.deletions) {
      if (deletion.child.kind == ChildKind::kPod) pods_.erase(*deletion.child.replica);
      if (deletion.child.kind == ChildKind::kService) services_.erase(deletion.child.name);
      if (deletion.child.kind == ChildKind::kConfigMap) config_ = nullptr;
      if (IsUnwatched(deletion.child.kind)) unwatched_[deletion.child.kind] = {};
    }
    for (const ChildRef& child : plan.ensure) StoreUnwatched(child.kind);
    for (const ChildRef& child : plan.creations) {
      if (child.kind == ChildKind::kPod) {
        Has(MakePod(child.replica->role, child.replica->index).Uid(child.name + "-uid-" + std::to_string(++uids_)));
      }
      if (child.kind == ChildKind::kService)
        services_[child.name] = {ChildKind::kService, child.name, child.name + "-uid", "3", child.replica};
      if (child.kind == ChildKind::kConfigMap) StoreConfig();
      if (IsUnwatched(child.kind)) StoreUnwatched(child.kind);
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
  Plan Peek() const { return MakePlan(job_, Seen(), now_, options); }

  Observed Seen() const {
    Observed observed = extra;
    observed.pods = pods_;
    observed.services = services_;
    observed.config = config_;
    observed.unwatched = unwatched_;
    return observed;
  }
  // The operator was killed before it could write one.
  World& ForgetsStatus() {
    job_.status = {};
    return *this;
  }
  // The operator starts anew: what no cache holds is not known.
  World& Restarts() {
    unwatched_.clear();
    return *this;
  }
  // Somebody else has the name of the job's Secret or PodGroup.
  World& IsForeign(ChildKind kind) {
    unwatched_[kind] = {.holder = Unwatched::Holder::kOther};
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
    config.content_hash = ConfigMap::ContentHash(BuildConfigData(job_, job_.status.hosts_epoch));
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
  int uids_ = 0;
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

}  // namespace trainyard::control
