// Training without peers whose parameters and optimizer slots stay in the memory of devices.
#pragma once

#include <functional>

#include "trainer/backend/device_group.h"
#include "trainer/train/resident_updater.h"

namespace trainyard::engine {

// The devices update in the step itself, so nothing is pushed.
class DeviceUpdater final : public ResidentUpdater {
 public:
  // `group` outlives it.
  DeviceUpdater(DeviceGroup& group, std::function<absl::StatusOr<TrainingState>()> load);

  void Push(int key, const GradientView& gradient, int64_t step) override;
  absl::StatusOr<StepResult> Wait(ParameterSet& /*parameters*/) override { return EndStep(); }
};

}  // namespace trainyard::engine
