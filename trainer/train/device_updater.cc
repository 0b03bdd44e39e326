#include "trainer/train/device_updater.h"

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {

absl::StatusOr<TrainingStart> DeviceUpdater::Start(ParameterSet& parameters) {
  TY_ASSIGN_OR_RETURN(const TrainingState state, load_());
  CopyValues(state.parameters, parameters);
  slot_specs_.clear();
  for (const ParameterSet& slot : state.slots) slot_specs_.emplace_back(slot.specs().begin(), slot.specs().end());
  for (int device = 0; device < group_.devices(); ++device) TY_RETURN_IF_ERROR(group_.at(device).Load(state.parameters, state.slots));
  step_ = state.step;
  return TrainingStart{.global_step = step_, .worker_step = step_, .joined = false};
}

void DeviceUpdater::Push(int /*key*/, const GradientView& /*gradient*/, int64_t /*step*/) {
  TY_CHECK(false);  // gradients do not leave the devices
}

absl::StatusOr<StepResult> DeviceUpdater::Wait(ParameterSet& /*parameters*/) { return StepResult{.global_step = ++step_}; }

absl::StatusOr<TrainingState> DeviceUpdater::State(const ParameterSet& parameters) {
  TrainingState state{.parameters = ParameterSet({parameters.specs().begin(), parameters.specs().end()}), .slots = {}, .step = step_};
  TY_RETURN_IF_ERROR(group_.at(0).FetchParameters(state.parameters));
  for (const std::vector<ParameterSpec>& specs : slot_specs_) state.slots.emplace_back(specs);
  TY_RETURN_IF_ERROR(group_.at(0).FetchSlots(state.slots));
  return state;
}

absl::Status DeviceUpdater::Look(const ParameterSet& parameters, const std::function<absl::Status(const StateView&)>& use) {
  TY_ASSIGN_OR_RETURN(const TrainingState state, State(parameters));
  return use(StateView(state));
}

}  // namespace trainyard::engine
