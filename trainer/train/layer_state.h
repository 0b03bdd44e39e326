// The state that the stateful layers of one worker's devices carry from batch to batch, and its
// stored part.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "trainer/checkpoint/run_saver.h"
#include "trainer/tensor/parameter_set.h"
#include "trainer/train/device_batches.h"
#include "trainer/train/training_run.h"

namespace trainyard::engine {

// Used from the step loop's thread. `run` must outlive it. In sync mode the state before a step is
// kept, too: it belongs to the parameters while the step is not finished.
class LayerState {
 public:
  explicit LayerState(TrainingRun& run) : run_(run) {}

  // The training goes on elsewhere: the next Begin looks for the state that was written down.
  void Forget();
  // Before a step with examples: zeros at the start of an epoch, the state that was written down
  // where a run goes on inside one. RolledBack: there is none for this step, and the chief can go
  // back to a step that has one.
  absl::Status Begin(BatchesOfStep batches);
  // From here to LeaveStep the state may be that after the step, of which the parameters are not
  // there.
  void EnterStep() { in_step_ = true; }
  void LeaveStep() { in_step_ = false; }

  // The model keeps some.
  bool any() const { return !states_.empty(); }
  // The chief's part of a checkpoint whose parameters are of `step`. In a synchronous step the
  // servers may have done it already, and this worker not.
  RunPlace Place(int64_t step) const;
  // Beside the chief's checkpoints, by every other worker of a synchronous job: those of
  // asynchronous jobs are of no step of another worker. Nothing to do is OK.
  absl::Status SaveBetweenSteps() const;
  // At the end of a run that another one may go on from; a stopped worker cannot know which step
  // the chief's checkpoint will be of.
  absl::Status SaveAtEnd() const;
  absl::Status SaveStopped() const;

 private:
  // NotFound and others: why there is none for the step to come.
  absl::Status Restore();
  void Reset();
  bool IsWritten() const { return any() && !run_.chief() && !run_.async(); }
  absl::Status Save(int64_t step, const std::vector<const ParameterSet*>& states) const;
  std::vector<const ParameterSet*> Now() const { return {states_.begin(), states_.end()}; }
  std::vector<const ParameterSet*> Before() const;

  TrainingRun& run_;
  std::vector<ParameterSet*> states_;  // the models', by device; empty: nothing, or no step yet
  std::vector<ParameterSet> before_;   // sync: as they were before the last step
  bool in_step_ = false;
};

}  // namespace trainyard::engine
