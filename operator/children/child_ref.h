// ChildRef: a reference to one object of a job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "operator/children/labels.h"

namespace trainyard::control {

enum class ChildKind : uint8_t { kPod, kService, kConfigMap, kSecret, kPodGroup, kDeployment };  // child_kinds.h has a row for each

struct ChildRef {
  ChildKind kind = ChildKind::kPod;
  std::string name;
  std::string uid;
  std::string resource_version;
  std::optional<ReplicaId> replica;
  bool terminating = false;  // to be waited for: deleting it again changes nothing
  friend bool operator==(const ChildRef&, const ChildRef&) = default;
};

}  // namespace trainyard::control
