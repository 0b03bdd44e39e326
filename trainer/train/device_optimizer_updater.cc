#include "trainer/train/device_optimizer_updater.h"

#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/optim/lr_schedule.h"

namespace trainyard::engine {

DeviceOptimizerUpdater::DeviceOptimizerUpdater(DeviceOptimizer& device, OptimizerConfig config,
                                               std::function<absl::StatusOr<TrainingState>()> load)
    : ResidentUpdater({&device}, std::move(load)), device_(device), config_(std::move(config)) {}

void DeviceOptimizerUpdater::Push(int key, const GradientView& gradient, int64_t step) {
  TY_CHECK(step == global_step());
  device_.Give(key, gradient.values);
  pushed_ = true;
}

absl::StatusOr<StepResult> DeviceOptimizerUpdater::Wait(ParameterSet& /*parameters*/) {
  const int64_t step = global_step();
  if (std::exchange(pushed_, false)) {
    TY_RETURN_IF_ERROR(device_.Update({.learning_rate = LearningRateAt(config_, step), .step = step}));
  }
  return EndStep();
}

}  // namespace trainyard::engine
