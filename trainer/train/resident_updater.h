// What updaters share whose parameters and optimizer slots stay in the memory of devices.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "trainer/backend/device_parameters.h"
#include "trainer/train/lone_updater.h"

namespace trainyard::engine {

// All devices have the same values: those of the first are fetched.
class ResidentUpdater : public LoneUpdater {
 public:
  absl::StatusOr<TrainingStart> Start(ParameterSet& parameters) override;
  absl::Status Refresh(ParameterSet& parameters) override { return devices_[0]->FetchParameters(parameters); }
  absl::StatusOr<TrainingState> State(const ParameterSet& parameters) override;
  absl::Status Look(const ParameterSet& parameters, const std::function<absl::Status(const StateView&)>& use) override;
  int64_t global_step() const override { return step_; }
  // Of all devices together.
  int64_t slot_bytes() const override { return static_cast<int64_t>(devices_.size()) * devices_[0]->slot_bytes(); }

 protected:
  // One device or more, which outlive it. `load` gives the newest good checkpoint's state, or the
  // start values.
  ResidentUpdater(std::vector<DeviceParameters*> devices, std::function<absl::StatusOr<TrainingState>()> load)
      : devices_(std::move(devices)), load_(std::move(load)) {}

  // The devices have the parameters of the next step, or will have them.
  StepResult EndStep() { return {.global_step = ++step_}; }

 private:
  const std::vector<DeviceParameters*> devices_;
  const std::function<absl::StatusOr<TrainingState>()> load_;
  std::vector<std::vector<ParameterSpec>> slot_specs_;  // by slot
  int64_t step_ = 0;
};

}  // namespace trainyard::engine
