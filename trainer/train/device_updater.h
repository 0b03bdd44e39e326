// Training without peers whose parameters and optimizer slots stay in the memory of devices.
#pragma once

#include <functional>
#include <vector>

#include "trainer/backend/device_group.h"
#include "trainer/train/lone_updater.h"

namespace trainyard::engine {

// The devices update in the step itself, so nothing is pushed. All have the same values: those of
// the first are fetched.
class DeviceUpdater final : public LoneUpdater {
 public:
  // `group` outlives it. `load` gives the newest good checkpoint's state, or the start values.
  DeviceUpdater(DeviceGroup& group, std::function<absl::StatusOr<TrainingState>()> load) : group_(group), load_(std::move(load)) {}

  absl::StatusOr<TrainingStart> Start(ParameterSet& parameters) override;
  void Push(int key, const GradientView& gradient, int64_t step) override;
  absl::StatusOr<StepResult> Wait(ParameterSet& parameters) override;
  absl::Status Refresh(ParameterSet& parameters) override { return group_.at(0).FetchParameters(parameters); }
  absl::StatusOr<TrainingState> State(const ParameterSet& parameters) override;
  absl::Status Look(const ParameterSet& parameters, const std::function<absl::Status(const StateView&)>& use) override;
  int64_t global_step() const override { return step_; }
  // Of all devices together.
  int64_t slot_bytes() const override { return group_.devices() * group_.at(0).slot_bytes(); }

 private:
  DeviceGroup& group_;
  const std::function<absl::StatusOr<TrainingState>()> load_;
  std::vector<std::vector<ParameterSpec>> slot_specs_;  // by slot
  int64_t step_ = 0;
};

}  // namespace trainyard::engine
