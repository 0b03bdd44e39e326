// How long this worker takes for its steps by itself; at the chief, which workers are slow beside
// the others.
#pragma once

#include "absl/time/time.h"
#include "trainer/base/straggler_watch.h"
#include "trainer/base/worker_pace.h"
#include "trainer/report/recorder.h"
#include "trainer/train/training_run.h"

namespace trainyard::engine {

// Of synchronous jobs with more than one worker; else it does nothing. Used from the step loop's
// thread. `run` must outlive it.
class PaceKeeper {
 public:
  explicit PaceKeeper(TrainingRun& run) : run_(run) {}
  void OnStep(const StepRecord& record);

 private:
  void Watch();

  TrainingRun& run_;
  PaceWindow own_;
  StragglerWatch watch_;
  absl::Time next_ = absl::InfinitePast();
};

}  // namespace trainyard::engine
