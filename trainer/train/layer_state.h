// The state that the stateful layers of one worker carry from batch to batch, and its stored part.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "trainer/checkpoint/run_saver.h"
#include "trainer/data/batch.h"
#include "trainer/tensor/parameter_set.h"
#include "trainer/train/training_run.h"

namespace trainyard::engine {

// Used from the step loop's thread. `run` must outlive it. In sync mode the state before a step is kept, too: it belongs to the parameters
// while the step is not finished.
class LayerState {
 public:
  explicit LayerState(TrainingRun& run) : run_(run) {}

  // The training goes on elsewhere: the next Begin looks for what was written down.
  void Forget();
  // Before a step with examples: zeros at the start of an epoch, what was written down where a run goes on inside one. RolledBack: there is
  // none for this step, and the chief can go back to where there is.
  absl::Status Begin(const Batch& batch);
  // From here to LeaveStep the state may be that after the step, of which the parameters are not there.
  void EnterStep() { in_step_ = true; }
  void LeaveStep() { in_step_ = false; }

  // The model keeps some.
  bool any() const { return state_ != nullptr; }
  // The chief's part of a checkpoint.
  RunPlace Place() const;
  // Beside the chief's checkpoints, by every other worker of a synchronous job: those of asynchronous jobs are of no step of another
  // worker. Nothing to do is OK.
  absl::Status SaveBetweenSteps() const;
  // At the end of a run that another one may go on from; a stopped worker cannot know which step the chief's checkpoint will be of.
  absl::Status SaveAtEnd() const;
  absl::Status SaveStopped() const;

 private:
  // NotFound and others: why there is none for the step to come.
  absl::Status Restore();
  bool IsWritten() const { return state_ != nullptr && !run_.chief() && !run_.async(); }
  absl::Status Save(int64_t step, const ParameterSet& state) const { return run_.saver->SaveCarried(step, state); }

  TrainingRun& run_;
  ParameterSet* state_ = nullptr;  // the model's; null: nothing, or no step yet
  ParameterSet before_;            // sync: as it was before the last step
  bool in_step_ = false;
};

}  // namespace trainyard::engine
