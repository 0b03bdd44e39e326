#include "operator/api/meta.h"

#include "operator/api/json_read.h"
#include "operator/api/text.h"

namespace trainyard::control {
namespace {

constexpr size_t kMaxFinalizers = 256;  // bytes that are shown

}  // namespace

absl::StatusOr<ObjectMeta> MetaFromJson(const nlohmann::json& object) {
  const nlohmann::json& metadata = json_read::Get(object, "metadata");
  ObjectMeta meta;
  meta.name = json_read::String(metadata, "name");
  if (meta.name.empty()) {
    return absl::InvalidArgumentError("an object without metadata.name came from the API server; expected a Kubernetes object");
  }
  meta.name_space = json_read::String(metadata, "namespace");
  meta.uid = json_read::String(metadata, "uid");
  meta.resource_version = json_read::String(metadata, "resourceVersion");
  meta.generation = json_read::Integer(metadata, "generation").value_or(0);
  meta.creation_time = json_read::Time(metadata, "creationTimestamp");
  meta.deletion_time = json_read::OptionalTime(metadata, "deletionTimestamp");
  if (const auto grace = json_read::Integer(metadata, "deletionGracePeriodSeconds")) meta.deletion_grace = absl::Seconds(*grace);
  const nlohmann::json& finalizers = json_read::Get(metadata, "finalizers");
  if (finalizers.is_array()) {
    for (const nlohmann::json& finalizer : finalizers) {
      if (!finalizer.is_string() || meta.finalizers.size() > kMaxFinalizers) continue;
      meta.finalizers += (meta.finalizers.empty() ? "" : ", ") + Head(finalizer.get_ref<const std::string&>(), kMaxFinalizers);
    }
  }
  const nlohmann::json& owners = json_read::Get(metadata, "ownerReferences");
  if (owners.is_array()) {
    for (const nlohmann::json& owner : owners) {
      if (!json_read::Bool(owner, "controller")) continue;
      meta.controller = {json_read::String(owner, "kind"), json_read::String(owner, "name"), json_read::String(owner, "uid")};
    }
  }
  const nlohmann::json& labels = json_read::Get(metadata, "labels");
  meta.labels = {json_read::String(labels, kJobNameLabel), json_read::String(labels, kJobUidLabel), json_read::String(labels, kRoleLabel),
                 json_read::String(labels, kIndexLabel)};
  return meta;
}

}  // namespace trainyard::control
