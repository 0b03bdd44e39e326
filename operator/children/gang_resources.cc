#include "operator/children/gang_resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "operator/api/json_read.h"
#include "operator/api/quantity.h"
#include "operator/children/pod_builder.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

void AddTo(ResourceSum& sum, const ResourceSum& more, int times = 1) {
  for (const auto& [name, amount] : more) sum[name] += amount * static_cast<unsigned>(times);
}

void Raise(ResourceSum& sum, const ResourceSum& other) {
  for (const auto& [name, amount] : other) sum[name] = std::max(sum[name], amount);
}

// `object`: names to quantities.
ResourceSum Read(const json& object) {
  ResourceSum sum;
  if (!object.is_object()) return sum;
  for (const auto& [name, value] : object.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : value.is_number() ? value.dump() : "";
    if (const auto amount = ParseQuantity(text)) sum[name] = *amount;
  }
  return sum;
}

ResourceSum OfContainer(const json& container) {
  const json& resources = json_read::Get(container, "resources");
  ResourceSum sum = Read(json_read::Get(resources, "limits"));
  for (const auto& [name, amount] : Read(json_read::Get(resources, "requests"))) sum[name] = amount;
  return sum;
}

// https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
ResourceSum OfPod(const json& spec) {
  ResourceSum sidecars;
  ResourceSum start;
  const json& first = json_read::Get(spec, "initContainers");
  for (const json& container : first.is_array() ? first : json::array()) {
    const ResourceSum own = OfContainer(container);
    if (json_read::String(container, "restartPolicy") == "Always") AddTo(sidecars, own);
    ResourceSum now = sidecars;
    if (json_read::String(container, "restartPolicy") != "Always") AddTo(now, own);
    Raise(start, now);
  }
  ResourceSum sum = std::move(sidecars);
  for (const json& container : spec["containers"]) AddTo(sum, OfContainer(container));
  Raise(sum, start);
  AddTo(sum, Read(json_read::Get(spec, "overhead")));
  return sum;
}

}  // namespace

ResourceSum RequestsOf(const TrainingJob& job, int replicas) {
  ResourceSum sum;
  for (const Role role : {Role::kPs, Role::kChief, Role::kWorker, Role::kEvaluator}) {
    const int of_role = std::min(job.spec.Replicas(role), replicas);
    if (of_role == 0) continue;
    replicas -= of_role;
    AddTo(sum, OfPod(BuildPod(job, {role, 0})["spec"]), of_role);
  }
  return sum;
}

json ToJson(const ResourceSum& sum) {
  json object = json::object();
  for (const auto& [name, amount] : sum) object[name] = FormatQuantity(amount);
  return object;
}

std::string Describe(const ResourceSum& sum) {
  std::string text;
  for (auto it = sum.begin(); it != sum.end(); ++it) {
    if (it != sum.begin()) text += std::next(it) == sum.end() ? " and " : ", ";
    text += fmt::format("{} {}", FormatQuantity(it->second), it->first == "cpu" ? "CPU" : it->first);
  }
  return text;
}

}  // namespace trainyard::control
