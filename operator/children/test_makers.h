// Fluent makers of test objects: each test shows only what matters to it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "operator/api/core.h"
#include "operator/api/validation.h"
#include "operator/base/timestamp.h"
#include "operator/children/labels.h"

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
  MakeJob& ServicePerReplica() { return Set("/spec/network/services", "PerReplica"); }
  MakeJob& Claim(const std::string& name) { return Set("/spec/storage/claimName", name); }
  MakeJob& Set(const std::string& pointer, nlohmann::json value) {
    object_[nlohmann::json::json_pointer(pointer)] = std::move(value);
    return *this;
  }
  // On Kubernetes 1.36.
  MakeJob& NativeAlpha() {
    options_.native_pod_groups = NativeVersion::kV1Alpha2;
    return *this;
  }
  const nlohmann::json& Object() const { return object_; }
  TrainingJob Build() const { return *DecodeJob(options_, object_); }

 private:
  nlohmann::json object_;
  DefaultOptions options_;
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
    Trainer().last_terminated = Termination{.exit_code = code, .reason = "Error", .message = "termination message"};
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

}  // namespace trainyard::control
