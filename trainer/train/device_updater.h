// Training without peers whose parameters and optimizer slots stay in a device's memory.
#pragma once

#include <functional>
#include <vector>

#include "trainer/backend/device_training.h"
#include "trainer/train/lone_updater.h"

namespace trainyard::engine {

// The device updates in the step itself, so nothing is pushed.
class DeviceUpdater final : public LoneUpdater {
 public:
  // `training` outlives it. `load` gives the newest good checkpoint's state, or the start values.
  DeviceUpdater(DeviceTraining& training, std::function<absl::StatusOr<TrainingState>()> load)
      : training_(training), load_(std::move(load)) {}

  absl::StatusOr<TrainingStart> Start(ParameterSet& parameters) override;
  void Push(int key, const GradientView& gradient, int64_t step) override;
  absl::StatusOr<StepResult> Wait(ParameterSet& parameters) override;
  absl::Status Refresh(ParameterSet& parameters) override { return training_.FetchParameters(parameters); }
  absl::StatusOr<TrainingState> State(const ParameterSet& parameters) override;
  absl::Status Look(const ParameterSet& parameters, const std::function<absl::Status(const StateView&)>& use) override;
  int64_t global_step() const override { return step_; }
  int64_t slot_bytes() const override { return training_.slot_bytes(); }

 private:
  DeviceTraining& training_;
  const std::function<absl::StatusOr<TrainingState>()> load_;
  std::vector<std::vector<ParameterSpec>> slot_specs_;  // by slot
  int64_t step_ = 0;
};

}  // namespace trainyard::engine
