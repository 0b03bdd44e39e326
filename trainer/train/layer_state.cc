#include "trainer/train/layer_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "trainer/base/status_macros.h"

namespace trainyard::engine {

void LayerState::Forget() {
  state_ = nullptr;
  in_step_ = false;
}

absl::Status LayerState::Begin(const Batch& batch) {
  const bool first = state_ == nullptr;
  TY_ASSIGN_OR_RETURN(state_, run_.model.TrainingState(batch.examples));
  if (state_ == nullptr) return absl::OkStatus();
  if (batch.step_in_epoch == 0) {
    run_.model.ResetState();
  } else if (const absl::Status restored = first ? Restore() : absl::OkStatus(); !restored.ok()) {
    // Where the servers were filled, nothing better than zeros can be had; elsewhere the chief can go back to where it can.
    if (run_.sync() && run_.step != run_.start.line_step) {
      return run_.updater->AskForRollback(fmt::format("no state: {}", std::string(restored.message())));
    }
    run_.model.ResetState();
    run_.recorder->OnRestart({.replica = run_.Name(),
                              .reason = fmt::format("the state of recurrent layers starts with zeros: {}", std::string(restored.message())),
                              .step = run_.step});
  }
  run_.saver->ForgetCarried();
  if (!run_.sync()) return absl::OkStatus();
  if (first) before_ = ParameterSet({state_->specs().begin(), state_->specs().end()});
  for (int i = 0; i < state_->size(); ++i) std::ranges::copy(state_->values(i), before_.values(i).begin());
  return absl::OkStatus();
}

absl::Status LayerState::Restore() {
  if (run_.async() && !run_.chief())
    return absl::NotFoundError("only the chief of an asynchronous job keeps the state of recurrent layers");
  return run_.saver->RestoreCarried(run_.step, *state_);
}

RunPlace LayerState::Place() const {
  return {.step = run_.step, .carried = state_ != nullptr && in_step_ && run_.sync() ? &before_ : state_};
}

absl::Status LayerState::SaveBetweenSteps() const { return IsWritten() ? Save(run_.step, *state_) : absl::OkStatus(); }

absl::Status LayerState::SaveAtEnd() const { return IsWritten() ? Save(run_.step, in_step_ ? before_ : *state_) : absl::OkStatus(); }

absl::Status LayerState::SaveStopped() const {
  if (!IsWritten() || in_step_) return SaveAtEnd();
  absl::Status saved = Save(run_.step - 1, before_);
  saved.Update(Save(run_.step, *state_));
  return saved;
}

}  // namespace trainyard::engine
