#include "operator/api/defaults.h"

namespace trainyard::control {

void ApplyDefaults(const DefaultOptions& options, TrainingJob& job) {
  if (job.spec.image.empty() && job.spec.framework == Framework::kTrainyard) job.spec.image = options.trainer_image;
}

}  // namespace trainyard::control
