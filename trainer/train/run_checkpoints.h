// When the chief writes a checkpoint of the running training, and what it is written from.
#pragma once

#include "absl/status/status.h"
#include "trainer/train/layer_state.h"
#include "trainer/train/training_run.h"

namespace trainyard::engine {

// Used from the step loop's thread. `run` and `layer_state` must outlive it.
class RunCheckpoints {
 public:
  RunCheckpoints(TrainingRun& run, const LayerState& layer_state) : run_(run), layer_state_(layer_state) {}

  // Between two steps, on every worker: the chief begins a checkpoint where one is due, the others write what their layers carry beside it.
  absl::Status SaveIfDue();
  // Begins a checkpoint that is written while the training goes on. A full disk is told.
  absl::Status SaveMeanwhile();
  // A checkpoint of this step is on the disk when it returns.
  absl::Status SaveNow();
  // Tells others of the checkpoints that were written since.
  absl::Status Follow();

 private:
  TrainingRun& run_;
  const LayerState& layer_state_;
};

}  // namespace trainyard::engine
