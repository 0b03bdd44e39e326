// How a replica that trains ends: what it makes safe, what it reports, and in which order it takes
// leave of the others.
#pragma once

#include "absl/status/status.h"
#include "trainer/train/chief.h"
#include "trainer/train/layer_state.h"
#include "trainer/train/run_checkpoints.h"
#include "trainer/train/training_run.h"

namespace trainyard::engine {

// Used from the step loop's thread. Its parts must outlive it.
class RunEnding {
 public:
  RunEnding(TrainingRun& run, const LayerState& layer_state, RunCheckpoints& checkpoints, Chief& chief)
      : run_(run), layer_state_(layer_state), checkpoints_(checkpoints), chief_(chief) {}

  // All steps are done.
  absl::Status Finished();
  // `trained` is an error, or a request to stop (Cancelled). Returns it, or the error of the
  // ending.
  absl::Status Unfinished(absl::Status trained);

 private:
  absl::Status Stopped();

  TrainingRun& run_;
  const LayerState& layer_state_;
  RunCheckpoints& checkpoints_;
  Chief& chief_;
};

}  // namespace trainyard::engine
