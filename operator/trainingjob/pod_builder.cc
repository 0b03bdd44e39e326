#include "operator/trainingjob/pod_builder.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "operator/trainingjob/child_meta.h"
#include "operator/trainingjob/framework_env.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr char kConfigVolume[] = "trainyard-config";
constexpr char kStorageVolume[] = "trainyard-storage";
constexpr char kSshVolume[] = "trainyard-ssh";
constexpr char kSshDir[] = "/root/.ssh";

json Parsed(const std::string& text) {
  json value = text.empty() ? json::object() : json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_object() ? value : json::object();
}

// The member as an object or array, made if it is absent or of another type.
json& Member(json& object, const char* key, json::value_t type) {
  json& member = object[key];
  if (member.type() != type) member = json(type);
  return member;
}

bool AnyHas(const json& list, const char* key, const json& value) {
  return std::any_of(list.begin(), list.end(), [&](const json& item) { return item.is_object() && item.value(key, json()) == value; });
}

void SetDefault(json& object, const char* key, json value) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null() || (it->is_string() && it->get_ref<const std::string&>().empty())) object[key] = std::move(value);
}

// Builds one pod, noting what could not be put in.
class PodBuilder {
 public:
  PodBuilder(const TrainingJob& job, const ReplicaId& id) : job_(job), id_(id), replica_(*job.spec.Find(id.role)) {}

  json Build() {
    json pod_template = Parsed(replica_.pod_template);
    json spec = std::move(Member(pod_template, "spec", json::value_t::object));
    json& containers = Member(spec, "containers", json::value_t::array);
    if (containers.empty()) containers.push_back(json::object());
    AddVolumes(spec, containers[0]);
    FillContainer(containers[0]);
    FillSpec(spec);
    return {{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", Metadata(pod_template)}, {"spec", std::move(spec)}};
  }

  const std::vector<std::string>& clashes() const { return clashes_; }

 private:
  json Metadata(const json& pod_template) {
    json meta = ChildMeta(job_, ChildName(job_, id_), id_);
    const json own = pod_template.value("metadata", json::object());
    if (!own.is_object()) return meta;
    const json labels = own.value("labels", json::object());
    if (labels.is_object()) {
      for (const auto& [key, value] : labels.items()) {
        if (!meta["labels"].contains(key)) meta["labels"][key] = value;
      }
    }
    for (const char* key : {"annotations", "finalizers"}) {
      if (own.contains(key)) meta[key] = own[key];
    }
    const Scheduling& scheduling = job_.spec.run_policy.scheduling;
    if (scheduling.gang == Gang::kVolcano) {
      Member(meta, "annotations", json::value_t::object)["scheduling.k8s.io/group-name"] = job_.meta.name;
      if (!scheduling.queue.empty()) meta["annotations"]["volcano.sh/queue-name"] = scheduling.queue;
    }
    if (scheduling.gang == Gang::kCoscheduling) meta["labels"]["scheduling.x-k8s.io/pod-group"] = job_.meta.name;
    return meta;
  }

  void FillSpec(json& spec) {
    switch (replica_.restart_policy) {
      case RestartPolicy::kAlways:
        spec["restartPolicy"] = "Always";
        break;
      case RestartPolicy::kOnFailure:
        spec["restartPolicy"] = "OnFailure";
        break;
      case RestartPolicy::kNever:
      case RestartPolicy::kExitCode:
        spec["restartPolicy"] = "Never";
        break;
    }
    // A variable for every service of the namespace would make pods of big clusters fail to start.
    SetDefault(spec, "enableServiceLinks", false);
    if (job_.spec.network.services == ServicesMode::kHeadless) {
      spec["hostname"] = ChildName(job_, id_);
      spec["subdomain"] = HeadlessServiceName(job_);
    }
    const Scheduling& scheduling = job_.spec.run_policy.scheduling;
    if (!scheduling.priority_class.empty()) SetDefault(spec, "priorityClassName", scheduling.priority_class);
    if (scheduling.gang == Gang::kVolcano) SetDefault(spec, "schedulerName", "volcano");
    if (scheduling.gang == Gang::kCoscheduling) SetDefault(spec, "schedulerName", "scheduler-plugins-scheduler");
  }

  void FillContainer(json& container) {
    SetDefault(container, "name", "trainer");
    if (!job_.spec.image.empty()) SetDefault(container, "image", job_.spec.image);
    if (!container.contains("command") && !container.contains("args")) AddCommand(container);
    if (!replica_.resources.empty()) SetDefault(container, "resources", Parsed(replica_.resources));
    SetDefault(container, "terminationMessagePolicy", "FallbackToLogsOnError");
    AddEnvironment(container);
    AddPort(container);
  }

  void AddCommand(json& container) {
    if (job_.spec.framework == Framework::kTrainyard) {
      container["command"] = {"trainyard-trainer", "train", "--output", job_.spec.storage.mount_path};
    } else if (job_.spec.framework == Framework::kMpi && id_.role == Role::kWorker && id_ != ChiefOf(job_)) {
      container["command"] = {"/usr/sbin/sshd", "-De"};
    }
  }

  // Ours come first, so that the user's may refer to them as $(TRAINYARD_INDEX).
  void AddEnvironment(json& container) {
    json& own = Member(container, "env", json::value_t::array);
    json env = json::array();
    for (const auto& [name, value] : ReplicaEnvironment(job_, id_)) {
      if (AnyHas(own, "name", name)) {
        clashes_.push_back("env " + name);
      } else {
        env.push_back({{"name", name}, {"value", value}});
      }
    }
    for (json& item : own) env.push_back(std::move(item));
    own = std::move(env);
  }

  void AddPort(json& container) {
    json& ports = Member(container, "ports", json::value_t::array);
    if (AnyHas(ports, "containerPort", job_.spec.network.port)) return;
    if (AnyHas(ports, "name", "trainyard")) {
      clashes_.emplace_back("port trainyard");
      return;
    }
    ports.push_back({{"name", "trainyard"}, {"containerPort", job_.spec.network.port}, {"protocol", "TCP"}});
  }

  void AddVolumes(json& spec, json& container) {
    AddVolume(spec, container, kConfigVolume, {{"configMap", {{"name", ConfigMapName(job_)}}}}, std::string(kConfigDir), true);
    const Storage& storage = job_.spec.storage;
    if (!storage.claim_name.empty()) {
      AddVolume(spec, container, kStorageVolume, {{"persistentVolumeClaim", {{"claimName", storage.claim_name}}}}, storage.mount_path,
                false);
    } else if (OutputIsEphemeral(job_)) {
      AddVolume(spec, container, kStorageVolume, {{"emptyDir", json::object()}}, storage.mount_path, false);
    }
    if (NeedsSshKeys(job_) && (id_.role == Role::kChief || id_.role == Role::kWorker)) {
      const auto item = [](const char* key, const char* path) { return json{{"key", key}, {"path", path}}; };
      const json items =
          json::array({item("ssh-privatekey", "id_rsa"), item("ssh-publickey", "id_rsa.pub"), item("ssh-publickey", "authorized_keys")});
      AddVolume(spec, container, kSshVolume, {{"secret", {{"secretName", SshSecretName(job_)}, {"defaultMode", 0600}, {"items", items}}}},
                kSshDir, true);
    }
  }

  void AddVolume(json& spec, json& container, const char* name, json source, const std::string& path, bool read_only) {
    json& mounts = Member(container, "volumeMounts", json::value_t::array);
    if (AnyHas(mounts, "mountPath", path)) {
      clashes_.push_back("mount " + path);
      return;
    }
    json& volumes = Member(spec, "volumes", json::value_t::array);
    if (AnyHas(volumes, "name", name)) {
      clashes_.push_back(std::string("volume ") + name);
    } else {
      source["name"] = name;
      volumes.push_back(std::move(source));
    }
    json mount = {{"name", name}, {"mountPath", path}};
    if (read_only) mount["readOnly"] = true;
    mounts.push_back(std::move(mount));
  }

  const TrainingJob& job_;
  const ReplicaId id_;
  const ReplicaSpec& replica_;
  std::vector<std::string> clashes_;
};

}  // namespace

json BuildPod(const TrainingJob& job, const ReplicaId& id) { return PodBuilder(job, id).Build(); }

std::vector<std::string> TemplateClashes(const TrainingJob& job, Role role) {
  const ReplicaSpec* replica = job.spec.Find(role);
  if (replica == nullptr || replica->pod_template.empty() || replica->replicas == 0) return {};
  PodBuilder builder(job, {role, 0});
  builder.Build();
  return builder.clashes();
}

bool OutputIsEphemeral(const TrainingJob& job) {
  return job.spec.storage.claim_name.empty() && (job.spec.framework == Framework::kTrainyard || job.spec.storage.given);
}

bool NeedsSshKeys(const TrainingJob& job) { return job.spec.framework == Framework::kMpi; }

}  // namespace trainyard::control
