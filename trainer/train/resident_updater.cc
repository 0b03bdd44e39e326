#include "trainer/train/resident_updater.h"

#include "trainer/base/status_macros.h"

namespace trainyard::engine {

absl::StatusOr<TrainingStart> ResidentUpdater::Start(ParameterSet& parameters) {
  TY_ASSIGN_OR_RETURN(const TrainingState state, load_());
  CopyValues(state.parameters, parameters);
  slot_specs_.clear();
  for (const ParameterSet& slot : state.slots) slot_specs_.emplace_back(slot.specs().begin(), slot.specs().end());
  for (DeviceParameters* const device : devices_) TY_RETURN_IF_ERROR(device->Load(state.parameters, state.slots));
  step_ = state.step;
  return TrainingStart{.global_step = step_, .worker_step = step_, .joined = false};
}

absl::StatusOr<TrainingState> ResidentUpdater::State(const ParameterSet& parameters) {
  TrainingState state{.parameters = ParameterSet({parameters.specs().begin(), parameters.specs().end()}), .slots = {}, .step = step_};
  TY_RETURN_IF_ERROR(devices_[0]->FetchParameters(state.parameters));
  for (const std::vector<ParameterSpec>& specs : slot_specs_) state.slots.emplace_back(specs);
  TY_RETURN_IF_ERROR(devices_[0]->FetchSlots(state.slots));
  return state;
}

absl::Status ResidentUpdater::Look(const ParameterSet& parameters, const std::function<absl::Status(const StateView&)>& use) {
  TY_ASSIGN_OR_RETURN(const TrainingState state, State(parameters));
  return use(StateView(state));
}

}  // namespace trainyard::engine
