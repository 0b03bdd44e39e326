#include "operator/api/defaults.h"

namespace trainyard::control {

void ApplyDefaults(const DefaultOptions& options, TrainingJob& job) {
  job.spec.network.key_in_secret = job.spec.framework == Framework::kTrainyard && (options.keys_in_secrets || job.spec.network.tls);
  job.spec.run_policy.scheduling.native = options.native_pod_groups;
  if (!job.spec.image.empty() || job.spec.framework != Framework::kTrainyard) return;
  job.spec.image = options.trainer_image;
  job.spec.image_is_default = true;
}

}  // namespace trainyard::control
