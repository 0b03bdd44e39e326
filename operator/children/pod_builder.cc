#include "operator/children/pod_builder.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "operator/api/json_read.h"
#include "operator/api/main_container.h"
#include "operator/children/child_meta.h"
#include "operator/children/framework_env.h"
#include "operator/children/job_secrets.h"
#include "operator/children/pod_json.h"
#include "operator/children/pod_scheduling.h"

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

bool AnyHas(const json& list, const char* key, const json& value) {
  return std::any_of(list.begin(), list.end(), [&](const json& item) { return item.is_object() && item.value(key, json()) == value; });
}

// Builds one pod, noting what could not be put in.
class PodBuilder {
 public:
  PodBuilder(const TrainingJob& job, const ReplicaId& id) : job_(job), id_(id), replica_(*job.spec.Find(id.role)) {}

  json Build() {
    json pod_template = Parsed(replica_.pod_template);
    json meta = Metadata(pod_template);
    const size_t main_index = MainContainerIndex(pod_template);
    json spec = std::move(Member(pod_template, "spec", json::value_t::object));
    json& containers = Member(spec, "containers", json::value_t::array);
    if (containers.empty()) containers.push_back(json::object());
    json& main = containers[main_index];
    AddVolumes(spec, main);
    // The trainer as the operator starts it: its image's user is known.
    const bool own_image = main.contains("image");
    const bool runs_trainer = job_.spec.framework == Framework::kTrainyard && TakesCommand(main);
    if (TakesCommand(main)) AddCommand(main);
    if (runs_trainer) Secure(spec, main, own_image);
    FillContainer(main);
    SetDefault(Member(meta, "annotations", json::value_t::object), kDefaultContainerAnnotation, main["name"]);
    ShowLastLogLines(containers);
    if (spec.contains("initContainers")) ShowLastLogLines(spec["initContainers"]);
    FillSpec(spec);
    MarkForScheduler(job_, id_, meta, spec);
    return {{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", std::move(meta)}, {"spec", std::move(spec)}};
  }

  const std::vector<std::string>& clashes() const { return clashes_; }

 private:
  json Metadata(const json& pod_template) {
    json meta = ChildMeta(job_, ChildName(job_, id_), id_);
    const json& own = json_read::Get(pod_template, "metadata");
    const json& labels = json_read::Get(own, "labels");
    if (labels.is_object()) {
      for (const auto& [key, value] : labels.items()) {
        if (!meta["labels"].contains(key)) meta["labels"][key] = value;
      }
    }
    for (const char* key : {"annotations", "finalizers"}) {
      if (const json* value = json_read::Find(own, key)) meta[key] = *value;
    }
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
      case RestartPolicy::kRecreate:
        spec["restartPolicy"] = "Never";
        break;
    }
    // A variable for every service of the namespace would make pods of big clusters fail to start.
    SetDefault(spec, "enableServiceLinks", false);
    if (job_.spec.network.services == ServicesMode::kHeadless) {
      spec["hostname"] = ChildName(job_, id_);
      spec["subdomain"] = HeadlessServiceName(job_);
    }
  }

  void FillContainer(json& container) {
    SetDefault(container, "name", kTrainerContainer);
    if (const std::string& image = ImageOf(job_); !image.empty()) SetDefault(container, "image", image);
    if (!replica_.resources.empty()) {
      if (container.contains("resources") && !container["resources"].is_null()) clashes_.emplace_back("resources");
      SetDefault(container, "resources", Parsed(replica_.resources));
    }
    AddEnvironment(container);
    AddPort(container);
  }

  // So that status can say why a container failed.
  static void ShowLastLogLines(json& containers) {
    if (!containers.is_array()) return;
    for (json& container : containers) {
      if (container.is_object()) SetDefault(container, "terminationMessagePolicy", "FallbackToLogsOnError");
    }
  }

  static bool TakesCommand(const json& container) { return !container.contains("command") && !container.contains("args"); }

  // The volume of a claim belongs to root: the trainer's group may write there. The fields that the
  // restricted Pod Security Standard asks for stand at the container. So a template's sidecars run
  // as they did. A template that sets one of these fields, or names an image, decides itself.
  static void Secure(json& spec, json& container, bool own_image) {
    const bool decides_itself =
        own_image || json_read::Find(spec, "securityContext") != nullptr || json_read::Find(container, "securityContext") != nullptr;
    json& pod_context = Member(spec, "securityContext", json::value_t::object);
    if (!pod_context.contains("fsGroup")) {
      pod_context["fsGroup"] = kTrainerGroup;
      SetDefault(pod_context, "fsGroupChangePolicy", "OnRootMismatch");
    }
    if (decides_itself) return;
    container["securityContext"] = TrainerSecurityContext();
  }

  void AddCommand(json& container) {
    if (job_.spec.framework == Framework::kTrainyard) {
      container["command"] = {"trainyard-trainer", "train", "--output", OutputFolder(job_)};
    } else if (job_.spec.framework == Framework::kMpi && id_.role == Role::kWorker && id_ != ChiefOf(job_)) {
      // All may write in the folder of a mounted secret, which sshd refuses by default.
      container["command"] = {"/usr/sbin/sshd", "-De", "-o", "StrictModes=no"};
    }
  }

  // Ours come first, so that the user's may refer to them as $(TRAINYARD_INDEX).
  void AddEnvironment(json& container) {
    json& own = Member(container, "env", json::value_t::array);
    json env = json::array();
    const auto add = [&](const std::string& name, const char* kind, json value) {
      if (AnyHas(own, "name", name)) {
        clashes_.push_back("env " + name);
      } else {
        env.push_back({{"name", name}, {kind, std::move(value)}});
      }
    };
    for (const auto& [name, value] : ReplicaEnvironment(job_, id_)) add(name, "value", value);
    if (job_.spec.framework == Framework::kTrainyard) add("TRAINYARD_NODE", "valueFrom", {{"fieldRef", {{"fieldPath", "spec.nodeName"}}}});
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
    AddVolume(spec, container, kConfigVolume, ConfigSource(), std::string(kConfigDir), true);
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
      AddVolume(spec, container, kSshVolume, {{"secret", {{"secretName", SecretName(job_)}, {"defaultMode", 0600}, {"items", items}}}},
                kSshDir, true);
    }
  }

  json ConfigSource() const {
    const json config = {{"configMap", {{"name", ConfigMapName(job_)}}}};
    if (!job_.spec.network.key_in_secret) return config;
    const json keys = {{"secret", {{"name", SecretName(job_)}, {"items", KeySecretItems(job_)}}}};
    return {{"projected", {{"sources", json::array({config, keys})}}}};
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

const std::string& ImageOf(const TrainingJob& job) {
  return job.spec.image_is_default && !job.status.image.empty() ? job.status.image : job.spec.image;
}

std::string OutputFolder(const TrainingJob& job) {
  std::string folder = job.spec.storage.mount_path;
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder + "/" + job.meta.name;
}

json TrainerSecurityContext() {
  return {{"allowPrivilegeEscalation", false},
          {"capabilities", {{"drop", json::array({"ALL"})}}},
          {"runAsNonRoot", true},
          {"seccompProfile", {{"type", "RuntimeDefault"}}}};
}

bool OutputIsEphemeral(const TrainingJob& job) {
  return job.spec.storage.claim_name.empty() && (job.spec.framework == Framework::kTrainyard || job.spec.storage.given);
}

}  // namespace trainyard::control
