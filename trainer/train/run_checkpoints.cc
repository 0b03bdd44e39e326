#include "trainer/train/run_checkpoints.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/train/not_finite.h"

namespace trainyard::engine {

bool EpochCheckpointIsDue(int64_t step, int64_t epochs) {
  constexpr int64_t kFewestSteps = 100;
  const int64_t steps_an_epoch = std::max<int64_t>(1, step / epochs);
  return epochs % ((kFewestSteps + steps_an_epoch - 1) / steps_an_epoch) == 0;
}

absl::Status RunCheckpoints::SaveIfDue(const Batch& batch) {
  if (run_.step >= run_.end_step) return absl::OkStatus();
  const CheckpointConfig& config = run_.config.checkpoint;
  // Other workers write what their layers carry at steps that all know: a checkpoint of another
  // step would be without it.
  const bool others_carry = layer_state_.any() && !run_.async() && run_.workers() > 1;
  const bool by_epochs = others_carry && config.every_steps == 0 && config.every_seconds > 0 && batch.last_in_epoch &&
                         EpochCheckpointIsDue(run_.step, batch.epoch + 1);
  const bool by_steps = by_epochs || run_.saver->DueBySteps(run_.step);
  if (run_.chief() && (by_steps || (!others_carry && run_.saver->DueByTime()))) TY_RETURN_IF_ERROR(SaveMeanwhile());
  return by_steps ? layer_state_.SaveBetweenSteps() : absl::OkStatus();
}

absl::Status RunCheckpoints::SaveMeanwhile() {
  const ActivityTicker::Work work(*run_.ticker);
  if (run_.global_step == run_.saver->checkpointed_step()) return absl::OkStatus();
  if (!run_.saver->HasRoom()) {
    LogInfo("memory has no room for a snapshot: the training waits while the checkpoint of step {} is written", run_.global_step);
    return run_.saver->Spare(SaveNow(), run_.global_step);
  }
  TY_ASSIGN_OR_RETURN(TrainingState state, run_.updater->State(run_.parameters));
  if (state.step == run_.saver->checkpointed_step()) return absl::OkStatus();
  TY_RETURN_IF_ERROR(CheckFinite(StateView(state), "checkpoint"));
  run_.recorder->FlushSummaries();
  const RunPlace place = layer_state_.Place(state.step);
  return run_.saver->SaveMeanwhile(std::move(state), place);
}

absl::Status RunCheckpoints::SaveNow() {
  const ActivityTicker::Work work(*run_.ticker);
  TY_RETURN_IF_ERROR(run_.saver->Settle());
  TY_RETURN_IF_ERROR(run_.updater->Look(run_.parameters, [this](const StateView& state) -> absl::Status {
    if (state.step == run_.saver->checkpointed_step()) return absl::OkStatus();
    TY_RETURN_IF_ERROR(CheckFinite(state, "checkpoint"));
    run_.recorder->FlushSummaries();
    return run_.saver->Save(state, layer_state_.Place(state.step));
  }));
  return Follow();
}

absl::Status RunCheckpoints::Follow() {
  TY_ASSIGN_OR_RETURN(const std::vector<RunSaver::Saved> finished, run_.saver->Finished());
  if (const std::string unwritten = run_.saver->TakeUnwritten(); !unwritten.empty()) run_.recorder->OnWarning(unwritten);
  for (const RunSaver::Saved& saved : finished) {
    run_.recorder->OnCheckpoint(saved.step);
    if (run_.config.evaluator) run_.book->Expect(saved.step, saved.digest);
  }
  return absl::OkStatus();
}

}  // namespace trainyard::engine
