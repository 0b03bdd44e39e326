// One step: forward, backward (each gradient is pushed as soon as it is final), the wait for the new parameters, the record.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "trainer/data/batch.h"
#include "trainer/report/recorder.h"
#include "trainer/train/gradient_pusher.h"
#include "trainer/train/training_run.h"

namespace trainyard::engine {

// Used from the step loop's thread. `run` must outlive it.
class StepRunner {
 public:
  explicit StepRunner(TrainingRun& run);

  // Step run.step with `batch`, which was waited for since `start`. RolledBack: the step was not done. Where the chief has ended the
  // training, run.ended is true afterwards.
  absl::Status Run(const Batch& batch, absl::Time start);
  // Once, as soon as all that should be profiled is.
  void WriteProfile();

 private:
  // Of a worker that has no examples in the step.
  void PushNothing(int64_t step);
  absl::Status PushGradients(const Batch& batch, StepRecord& record);
  // Of a step whose loss or gradient is not finite: an error, or, where the job skips such steps, a step that changes nothing.
  absl::Status CheckFiniteStep(const Batch& batch, StepRecord& record);
  // Waits for the new parameters.
  absl::Status Finish(StepRecord& record, bool profiled);

  TrainingRun& run_;
  GradientPusher pusher_;
};

}  // namespace trainyard::engine
