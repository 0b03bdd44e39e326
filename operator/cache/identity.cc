#include "operator/cache/identity.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "operator/api/resource.h"

namespace trainyard::control {
namespace {

std::string_view Text(const nlohmann::json& object, const char* field) {
  const auto it = object.find(field);
  return it != object.end() && it->is_string() ? std::string_view(it->get_ref<const std::string&>()) : std::string_view();
}

std::string ControllerUid(const nlohmann::json& metadata) {
  const auto owners = metadata.find("ownerReferences");
  if (owners == metadata.end() || !owners->is_array()) return "";
  for (const nlohmann::json& owner : *owners) {
    if (!owner.is_object()) continue;
    const auto controller = owner.find("controller");
    if (controller != owner.end() && controller->is_boolean() && controller->get<bool>()) return std::string(Text(owner, "uid"));
  }
  return "";
}

}  // namespace

absl::StatusOr<Identity> IdentityOf(const nlohmann::json& object) {
  if (!object.is_object()) return absl::InvalidArgumentError("the object is not a JSON object");
  const auto metadata = object.find("metadata");
  if (metadata == object.end() || !metadata->is_object()) return absl::InvalidArgumentError("metadata is missing");
  Identity identity;
  identity.key = ObjectKey(Text(*metadata, "namespace"), Text(*metadata, "name"));
  identity.uid = Text(*metadata, "uid");
  identity.controller_uid = ControllerUid(*metadata);
  const std::string_view version = Text(*metadata, "resourceVersion");
  const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), identity.resource_version);
  if (error != std::errc() || end != version.data() + version.size()) {
    return absl::InvalidArgumentError("metadata.resourceVersion is not a number");
  }
  return identity;
}

}  // namespace trainyard::control
