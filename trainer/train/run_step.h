// One step: forward and backward on all devices (each gradient is summed over them and pushed as
// soon as it is final), the wait for the new parameters, the record.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "trainer/base/thread_pool.h"
#include "trainer/report/recorder.h"
#include "trainer/train/device_batches.h"
#include "trainer/train/device_sum.h"
#include "trainer/train/gradient_pusher.h"
#include "trainer/train/pace_keeper.h"
#include "trainer/train/training_run.h"

namespace trainyard::engine {

// Used from the step loop's thread. `run` must outlive it.
class StepRunner {
 public:
  explicit StepRunner(TrainingRun& run);

  // Step run.step with `batches`, which were waited for since `start`. RolledBack: the step was not
  // done. Where the chief has ended the training, run.ended is true afterwards.
  absl::Status Run(BatchesOfStep batches, absl::Time start);
  // Once, as soon as all that should be profiled is.
  void WriteProfile();

 private:
  // A device's share of a step.
  struct Share {
    absl::Status status;
    double loss = 0;
    std::optional<std::string> not_finite;  // what of it
    bool skipped = false;                   // it changes nothing, for that
    bool overflowed = false;                // likewise, for an overflow (optim/loss_scale.h)
  };
  absl::Status BeginProfile(BatchesOfStep batches, int64_t step);
  absl::Status PushGradients(BatchesOfStep batches, StepRecord& record);
  // On the device's thread. `all` examples are shared by `devices` devices, this one among them.
  void RunDevice(size_t device, const Batch& batch, int64_t all, int devices, Share& share);
  // The same where the devices keep parameters and gradients. `weight` as of GradientPusher.
  void RunOnDevice(size_t device, const Batch& batch, float weight, Share& share);
  absl::Status LookAtNotFinite(size_t device, Share& share);
  // A share whose loss or gradient is not finite changes nothing where the job skips such steps,
  // and where it has overflowed. Else it is left as it is.
  absl::Status CheckFiniteShare(size_t device, Share& share);
  // The step's record has the mean loss over all examples of the shares that count. The error of a
  // share that is not finite and was not skipped.
  absl::Status Conclude(BatchesOfStep batches, const std::vector<Share>& shares, StepRecord& record);
  std::string NameOf(size_t device) const;
  float LossScaleNow() const { return run_.loss_scale ? run_.loss_scale->value() : 1.0F; }
  // Of one device, whose dropout and examples follow its rank.
  StepContext ContextOf(const Device& device) const;
  // After a step that was done.
  void FollowLossScale(const StepRecord& record);
  // Waits for the new parameters.
  absl::Status Finish(StepRecord& record, bool profiled);

  TrainingRun& run_;
  ThreadPool threads_;  // one for each device
  DeviceSum sum_;
  std::vector<GradientPusher> pushers_;  // by device
  PaceKeeper paces_;
};

}  // namespace trainyard::engine
