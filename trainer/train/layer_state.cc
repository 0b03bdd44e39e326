#include "trainer/train/layer_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "trainer/base/file.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine {

void LayerState::Forget() {
  states_.clear();
  in_step_ = false;
}

void LayerState::Reset() {
  for (const std::unique_ptr<Device>& device : run_.devices) device->model.ResetState();
}

absl::Status LayerState::Begin(BatchesOfStep batches) {
  const bool first = states_.empty();
  std::vector<ParameterSet*> states;
  for (size_t device = 0; device < batches.size(); ++device) {
    // A device without examples keeps what it has, as of a whole batch.
    const int64_t examples = batches[device]->examples > 0 ? batches[device]->examples : run_.config.batch_size;
    TY_ASSIGN_OR_RETURN(ParameterSet* const state, run_.devices[device]->model.TrainingState(examples));
    if (state == nullptr) return absl::OkStatus();
    states.push_back(state);
  }
  states_ = std::move(states);
  if (batches[0]->step_in_epoch == 0) {
    Reset();
  } else if (const absl::Status restored = first ? Restore() : absl::OkStatus(); !restored.ok()) {
    // Where the servers were filled, nothing better than zeros can be had; elsewhere the chief can
    // go back to where it can.
    if (run_.sync() && run_.step != run_.start.line_step) {
      return run_.updater->AskForRollback(fmt::format("no state: {}", std::string(restored.message())));
    }
    Reset();
    run_.recorder->OnRestart({.replica = run_.Name(),
                              .reason = fmt::format("the state of recurrent layers starts with zeros: {}", std::string(restored.message())),
                              .step = run_.step});
  }
  run_.saver->ForgetCarried();
  if (!run_.sync()) return absl::OkStatus();
  if (first) before_.clear();
  for (size_t device = 0; device < states_.size(); ++device) {
    const ParameterSet& state = *states_[device];
    if (first) before_.emplace_back(std::vector<ParameterSpec>{state.specs().begin(), state.specs().end()});
    for (int i = 0; i < state.size(); ++i) std::ranges::copy(state.values(i), before_[device].values(i).begin());
  }
  return absl::OkStatus();
}

absl::Status LayerState::Restore() {
  if (run_.async() && !run_.chief())
    return absl::NotFoundError("only the chief of an asynchronous job keeps the state of recurrent layers");
  for (size_t device = 0; device < states_.size(); ++device) {
    TY_RETURN_IF_ERROR(run_.saver->RestoreCarried(static_cast<int>(device), run_.step, *states_[device]));
  }
  return absl::OkStatus();
}

absl::Status LayerState::Save(int64_t step, const std::vector<const ParameterSet*>& states) const {
  for (size_t device = 0; device < states.size(); ++device) {
    TY_RETURN_IF_ERROR(run_.saver->SaveCarried(static_cast<int>(device), step, *states[device]));
  }
  return absl::OkStatus();
}

std::vector<const ParameterSet*> LayerState::Before() const {
  std::vector<const ParameterSet*> before;
  for (const ParameterSet& state : before_) before.push_back(&state);
  return before;
}

RunPlace LayerState::Place(int64_t step) const {
  RunPlace place{.step = run_.step,
                 .carried = Now(),
                 .loss_scale = run_.loss_scale ? run_.loss_scale->ToText() : "",
                 .loss_start = run_.recorder->LossStart(),
                 .epoch_loss = run_.recorder->EpochLossText()};
  if (!in_step_ || !run_.sync()) return place;
  if (step > run_.step) {
    // What others have done of this step needed this worker's pushes, which follow its new state.
    place.step = step;
  } else if (any()) {
    place.carried = Before();
  }
  return place;
}

absl::Status LayerState::SaveBetweenSteps() const {
  if (!IsWritten()) return absl::OkStatus();
  // Without it the job cannot go on from this step's checkpoint, and takes an earlier one.
  return TellIfMayPass(Save(run_.step, Now()), fmt::format("the state of recurrent layers at step {}", run_.step));
}

absl::Status LayerState::SaveAtEnd() const { return IsWritten() ? Save(run_.step, in_step_ ? Before() : Now()) : absl::OkStatus(); }

absl::Status LayerState::SaveStopped() const {
  if (!IsWritten()) return absl::OkStatus();
  // In a step the servers may have done it already; else the chief may be one step behind.
  const int64_t after = in_step_ ? run_.step + 1 : run_.step;
  absl::Status saved = Save(after - 1, Before());
  saved.Update(Save(after, Now()));
  return saved;
}

}  // namespace trainyard::engine
