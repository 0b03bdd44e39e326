// The kinds of a job's children: all that differs between them, in one table.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "operator/api/resource.h"
#include "operator/children/child_ref.h"
#include "operator/children/job_secrets.h"

namespace trainyard::control {

// The random parts of a new child; empty where the child has none.
struct ChildSecrets {
  JobKey key;
  SshKeys ssh;
};

struct ChildTraits {
  ChildKind kind;
  std::string_view name;  // "Pod"
  bool watched;           // a cache holds it: a cluster need not have PodGroups, and Secrets are not the operator's to list
  bool pods_need_it;      // a pod without it would hang in creation, or run outside its gang
  const Resource& (*resource)(const TrainingJob& job);  // PodGroups are those of the job's gang scheduler
  nlohmann::json (*build)(const TrainingJob& job, const ChildRef& child, const ChildSecrets& secrets);  // the object that a create sends
};

const ChildTraits& TraitsOf(ChildKind kind);

}  // namespace trainyard::control
