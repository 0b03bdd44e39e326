#include "operator/api/template_validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "operator/api/field_words.h"
#include "operator/api/json_read.h"
#include "operator/api/main_container.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

constexpr std::string_view kOurLabels = "trainyard.dev/";

class TemplateChecker {
 public:
  TemplateChecker(const TrainingJobSpec& spec, Role role, std::vector<FieldError>& errors)
      : spec_(spec), replica_(*spec.Find(role)), path_(fmt::format("spec.{}.template", Name(role))), role_(role), errors_(errors) {}

  void Run() {
    const json pod_template = json::parse(replica_.pod_template, nullptr, false);
    if (!pod_template.is_object()) return Add(".spec", "expected a pod's spec (kubectl explain pod.spec)");
    for (const auto& [name, value] : pod_template.items()) {
      if (name != "metadata" && name != "spec") Add("." + name, UnknownField(name, {"metadata", "spec"}));
    }
    CheckMetadata(json_read::Get(pod_template, "metadata"));
    CheckSpec(pod_template);
  }

 private:
  void Add(const std::string& below, std::string message) { errors_.push_back({path_ + below, std::move(message)}); }

  void CheckMetadata(const json& metadata) {
    if (metadata.is_null()) return;
    if (!metadata.is_object()) {
      return Add(".metadata", fmt::format("found {}, expected an object with labels and annotations", Shown(metadata)));
    }
    static const std::vector<std::string> kKept = {"annotations", "finalizers", "labels"};
    static constexpr std::array kOurs = {"name", "generateName", "namespace", "ownerReferences", "uid", "resourceVersion"};
    for (const auto& [name, value] : metadata.items()) {
      const std::string below = ".metadata." + name;
      if (value.is_null()) continue;
      if (std::find(kOurs.begin(), kOurs.end(), name) != kOurs.end()) {
        Add(below, "is the operator's to set; remove it");
      } else if (std::find(kKept.begin(), kKept.end(), name) == kKept.end()) {
        Add(below, UnknownField(name, kKept));
      } else if (name != "finalizers" && !value.is_object()) {
        Add(below, fmt::format("found {}, expected an object such as {{team: vision}}", Shown(value)));
      }
    }
    const json& labels = json_read::Get(metadata, "labels");
    if (!labels.is_object()) return;
    for (const auto& [name, value] : labels.items()) {
      if (name.starts_with(kOurLabels)) Add(".metadata.labels." + name, "is the operator's to set; remove it");
    }
  }

  void CheckSpec(const json& pod_template) {
    const json& spec = json_read::Get(pod_template, "spec");
    if (!spec.is_null() && !spec.is_object()) return Add(".spec", "expected a pod's spec (kubectl explain pod.spec)");
    const json* containers = json_read::Find(spec, "containers");
    const size_t main = MainContainerIndex(pod_template);
    if (containers != nullptr && (!containers->is_array() || containers->empty() || !(*containers)[main].is_object())) {
      return Add(".spec.containers", "expected a list with the trainer's container; fill it or leave it out");
    }
    const json container = containers == nullptr ? json::object() : (*containers)[main];
    const std::string name = json_read::String(container, "name");
    const json& annotations = json_read::Get(json_read::Get(pod_template, "metadata"), "annotations");
    const std::string noted = json_read::String(annotations, kDefaultContainerAnnotation);
    if (name != kTrainerContainer && !noted.empty() && noted != name) {
      Add(fmt::format(".metadata.annotations.{}", kDefaultContainerAnnotation),
          fmt::format("found {}, expected the name of a container of the template; or call the trainer's container trainer", noted));
    }
    const std::string path = fmt::format(".spec.containers[{}]", main);
    if (json_read::String(container, "image").empty() && spec_.image.empty() && replica_.replicas > 0) {
      Add(path + ".image", "found none; set it or spec.image");
    }
    CheckList(spec, ".spec", "volumes", "[{name: data, emptyDir: {}}]");
    CheckList(container, path, "env", "[{name: LR, value: \"0.1\"}]");
    CheckList(container, path, "volumeMounts", "[{name: data, mountPath: /data}]");
    CheckList(container, path, "ports", "[{name: metrics, containerPort: 9090}]");
    const std::string policy = json_read::String(spec, "restartPolicy");
    if (!policy.empty()) {
      Add(".spec.restartPolicy",
          fmt::format("found {}, but spec.{}.restartPolicy decides; remove it from the template", policy, Name(role_)));
    }
    if (spec_.network.services != ServicesMode::kHeadless) return;
    for (const char* name : {"hostname", "subdomain"}) {
      if (json_read::Find(spec, name) != nullptr) {
        Add(fmt::format(".spec.{}", name), "is the operator's to set with network.services Headless; remove it, or set PerReplica");
      }
    }
  }

  // The operator adds entries of its own to it.
  void CheckList(const json& object, const std::string& below, const char* name, const char* example) {
    const json* list = json_read::Find(object, name);
    if (list == nullptr || list->is_array()) return;
    Add(fmt::format("{}.{}", below, name), fmt::format("found {}, expected a list such as {}", Shown(*list), example));
  }

  const TrainingJobSpec& spec_;
  const ReplicaSpec& replica_;
  const std::string path_;
  const Role role_;
  std::vector<FieldError>& errors_;
};

}  // namespace

void CheckTemplate(const TrainingJobSpec& spec, Role role, std::vector<FieldError>& errors) { TemplateChecker(spec, role, errors).Run(); }

}  // namespace trainyard::control
