// Defaults that the CRD's schema cannot give, because they depend on other fields or on the
// operator's flags.
#pragma once

#include <string>

#include "operator/api/training_job.h"

namespace trainyard::control {

struct DefaultOptions {
  std::string trainer_image = "trainyard/trainer:0.1";
  bool keys_in_secrets = false;  // the operator may create Secrets, and keeps the keys of jobs there
  NativeVersion native_pod_groups = NativeVersion::kV1Beta1;
};

void ApplyDefaults(const DefaultOptions& options, TrainingJob& job);

}  // namespace trainyard::control
