// Runs the optimizer on a device with gradients that are on the host.
#pragma once

#include <functional>

#include "trainer/backend/device_optimizer.h"
#include "trainer/optim/optimizer_config.h"
#include "trainer/train/resident_updater.h"

namespace trainyard::engine {

// A gradient goes to the device as it is pushed. A step without any changes nothing but the step's
// number.
class DeviceOptimizerUpdater final : public ResidentUpdater {
 public:
  // `device`, which has the optimizer of `config`, outlives it.
  DeviceOptimizerUpdater(DeviceOptimizer& device, OptimizerConfig config, std::function<absl::StatusOr<TrainingState>()> load);

  void Push(int key, const GradientView& gradient, int64_t step) override;
  absl::StatusOr<StepResult> Wait(ParameterSet& parameters) override;

 private:
  DeviceOptimizer& device_;
  const OptimizerConfig config_;
  bool pushed_ = false;  // in the step in hand
};

}  // namespace trainyard::engine
