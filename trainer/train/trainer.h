// The step loop of a replica that trains (worker or chief): the page to read first.
//
//   next batches → begin state → forward, backward, sum over devices, push → wait for the new parameters → save → the chief's work
//
// A synchronous training is rolled back where parameter servers have lost their values, or the step
// of a worker was torn. The loop then begins again at the step of the newest good checkpoint (or at
// 0). Everything from there on comes again with the same bits.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/train/chief.h"
#include "trainer/train/device_batches.h"
#include "trainer/train/layer_state.h"
#include "trainer/train/run_checkpoints.h"
#include "trainer/train/run_ending.h"
#include "trainer/train/run_step.h"
#include "trainer/train/training_run.h"

namespace trainyard::engine {

// Used from one thread. `backends` and `clock` must outlive it.
class Trainer {
 public:
  // Opens the data, compiles the model, loads or makes the start values lazily, and connects the
  // updater. Errors name the file, field or peer.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(TrainerOptions options, const WorkerBackends& backends, Clock& clock);

  // Trains to the end. Cancelled when `stop` became true: the chief has then written a checkpoint.
  absl::Status Run(const std::function<bool()>& stop);

 private:
  explicit Trainer(std::unique_ptr<TrainingRun> run);
  // Takes note of where the training goes on.
  absl::Status Begin(const TrainingStart& start);
  // Everything from there, until it is rolled back.
  absl::Status RunFromStart();
  absl::Status RunSteps();
  // Of the first step that this process does, before it.
  absl::Status PrepareSteps();
  absl::StatusOr<BatchesOfStep> NextBatches(DeviceBatches& input);
  // Between two steps. Worker or chief.
  absl::Status FollowUp(const Batch& batch);
  // Before the first step of a training that goes on: what the step before it has left to do.
  absl::Status CatchUp();

  const std::unique_ptr<TrainingRun> run_;
  LayerState layer_state_;
  RunCheckpoints checkpoints_;
  Chief chief_;  // idle on another worker
  RunEnding ending_;
  StepRunner step_;
};

}  // namespace trainyard::engine
