// The part of any object's metadata that the cache itself reads.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace trainyard::control {

struct Identity {
  std::string key{};  // "namespace/name"
  std::string uid{};
  std::string controller_uid{};  // of the owner reference with controller=true; empty for an orphan
  int64_t resource_version = 0;  // comparable within one resource (KEP-5504)
};

// InvalidArgument naming the field when name or resourceVersion is missing or of a wrong type.
absl::StatusOr<Identity> IdentityOf(const nlohmann::json& object);

}  // namespace trainyard::control
