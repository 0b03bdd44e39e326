// When the chief writes a checkpoint of the running training, and what it is written from.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "trainer/data/batch.h"
#include "trainer/train/layer_state.h"
#include "trainer/train/training_run.h"

namespace trainyard::engine {

// Whether a checkpoint is due after `step` steps that make `epochs` whole epochs: at the end of
// each epoch, of short ones once in 100 steps. All workers of a job find the same.
bool EpochCheckpointIsDue(int64_t step, int64_t epochs);

// Used from the step loop's thread. `run` and `layer_state` must outlive it.
class RunCheckpoints {
 public:
  RunCheckpoints(TrainingRun& run, const LayerState& layer_state) : run_(run), layer_state_(layer_state) {}

  // Between two steps, the last of which was that of `batch`, on every worker. The chief begins a
  // checkpoint where one is due. The others write the state of their layers beside it.
  absl::Status SaveIfDue(const Batch& batch);
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
