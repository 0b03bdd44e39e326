#include "trainer/train/run_step.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/optim/lr_schedule.h"
#include "trainer/tensor/finite.h"
#include "trainer/train/not_finite.h"

namespace trainyard::engine {
namespace {

std::vector<ParameterSet*> GradientsOf(const TrainingRun& run) {
  std::vector<ParameterSet*> gradients;
  for (const std::unique_ptr<Device>& device : run.devices) gradients.push_back(&device->gradients);
  return gradients;
}

}  // namespace

// The mean over the devices is taken here where nothing else is added to their sum.
StepRunner::StepRunner(TrainingRun& run)
    : run_(run),
      threads_(static_cast<int>(run.devices.size())),
      sum_(*run.updater, GradientsOf(run), run.sync() ? DeviceMean::kNone : DeviceMean::kOfDevices,
           run.config.strategy.kind == StrategyConfig::Kind::kLocal ? &threads_ : nullptr),
      paces_(run) {
  for (const std::unique_ptr<Device>& device : run.devices) {
    const GradientPusherOptions options{.clip_norm = run.config.optimizer.clip_norm,
                                        .may_skip = run.config.on_non_finite == OnNonFinite::kSkip || run.loss_scale.has_value(),
                                        .threads = device->threads};
    pushers_.emplace_back(sum_, device->gradients, options);
  }
}

absl::Status StepRunner::Run(BatchesOfStep batches, absl::Time start) {
  const Batch& first = *batches[0];
  StepRecord record{.step = run_.step,
                    .epoch = first.epoch,
                    .examples = ExamplesOf(batches),
                    .learning_rate = LearningRateAt(run_.config.optimizer, run_.global_step),
                    .loss_scale = run_.loss_scale ? std::optional<double>(run_.loss_scale->value()) : std::nullopt,
                    .input = first.stages.spans(),
                    .start = start,
                    .input_done = run_.clock.Now()};
  const bool profiled = record.examples > 0 && run_.profiler->Wants(record.step);
  if (profiled) TY_RETURN_IF_ERROR(BeginProfile(batches, record.step));
  TY_RETURN_IF_ERROR(PushGradients(batches, record));
  record.compute_done = run_.clock.Now();
  return Finish(record, profiled);
}

absl::Status StepRunner::BeginProfile(BatchesOfStep batches, int64_t step) {
  std::vector<Executor*> executors(batches.size());
  for (size_t device = 0; device < batches.size(); ++device) {
    if (batches[device]->examples == 0) continue;
    TY_ASSIGN_OR_RETURN(executors[device], run_.devices[device]->model.TrainingExecutor(batches[device]->examples));
  }
  run_.profiler->BeginStep(step, executors);
  return absl::OkStatus();
}

absl::Status StepRunner::PushGradients(BatchesOfStep batches, StepRecord& record) {
  std::vector<bool> with_examples;
  for (const Batch* const batch : batches) with_examples.push_back(batch->examples > 0);
  if (run_.on_devices == nullptr) sum_.Begin(record.step, with_examples);
  const int64_t all = run_.async() ? record.examples : batches[0]->global_examples;
  const int devices = run_.async() ? static_cast<int>(batches.size()) : run_.all_devices();
  std::vector<Share> shares(batches.size());
  threads_.Run(static_cast<int64_t>(batches.size()), [&](int64_t begin, int64_t end, int) {
    for (int64_t device = begin; device < end; ++device) {
      RunDevice(static_cast<size_t>(device), *batches[device], all, devices, shares[device]);
    }
  });
  TY_RETURN_IF_ERROR(Conclude(batches, shares, record));
  if (run_.on_devices != nullptr) return record.overflowed ? absl::OkStatus() : run_.on_devices->Update(with_examples, threads_);
  sum_.End();
  return absl::OkStatus();
}

void StepRunner::RunDevice(size_t device, const Batch& batch, int64_t all, int devices, Share& share) {
  const int64_t as_if_equal = batch.examples * devices;
  const float weight = as_if_equal == all ? 1.0F : static_cast<float>(as_if_equal) / static_cast<float>(all);
  if (run_.on_devices != nullptr) return RunOnDevice(device, batch, weight, share);
  if (batch.examples == 0) return;
  Device& own = *run_.devices[device];
  pushers_[device].Begin(weight / LossScaleNow());
  const absl::StatusOr<double> loss = own.model.Train(ContextOf(own), batch, run_.parameters, own.gradients, &pushers_[device]);
  share.status = loss.status();
  if (!loss.ok()) return;
  share.loss = *loss;
  share.status = CheckFiniteShare(device, share);
  if (!share.status.ok()) return;
  if (!share.not_finite || share.skipped) pushers_[device].End();
}

void StepRunner::RunOnDevice(size_t device, const Batch& batch, float weight, Share& share) {
  Device& own = *run_.devices[device];
  const int64_t updates = run_.global_step - (run_.loss_scale ? run_.loss_scale->overflows() : 0);
  share.status = run_.on_devices->BeginStep(
      static_cast<int>(device), {.learning_rate = LearningRateAt(run_.config.optimizer, run_.global_step), .step = updates}, weight);
  if (!share.status.ok() || batch.examples == 0) return;
  const absl::StatusOr<StepOutcome> outcome = own.model.TrainOnDevice(ContextOf(own), batch);
  share.status = outcome.status();
  if (!outcome.ok()) return;
  share.loss = outcome->loss;
  share.overflowed = outcome->verdict == StepOutcome::Verdict::kOverflow;
  if (outcome->verdict == StepOutcome::Verdict::kNotFinite) share.status = LookAtNotFinite(device, share);
}

// The device has seen it, and has left the parameters as they were.
absl::Status StepRunner::LookAtNotFinite(size_t device, Share& share) {
  DeviceTraining& training = run_.on_devices->at(static_cast<int>(device));
  ParameterSet values({run_.parameters.specs().begin(), run_.parameters.specs().end()});
  TY_RETURN_IF_ERROR(training.FetchResults(values));
  share.not_finite = FindNotFinite(share.loss, &values);
  if (!share.not_finite || run_.config.on_non_finite != OnNonFinite::kSkip) return absl::OkStatus();
  TY_RETURN_IF_ERROR(training.FetchParameters(values));
  share.skipped = FirstNotFinite(values).empty();
  if (!share.skipped) return absl::OkStatus();
  run_.devices[device]->model.ResetState();
  return run_.on_devices->LeaveOut(static_cast<int>(device));
}

absl::Status StepRunner::CheckFiniteShare(size_t device, Share& share) {
  Device& own = *run_.devices[device];
  const bool may_skip = run_.config.on_non_finite == OnNonFinite::kSkip;
  share.not_finite = FindNotFinite(share.loss, may_skip || run_.loss_scale ? &own.gradients : nullptr);
  share.overflowed = share.not_finite && std::isfinite(share.loss) && LossScaleNow() > 1;
  if (!share.not_finite || (!may_skip && !share.overflowed)) return absl::OkStatus();
  if (run_.device_optimizer != nullptr) TY_RETURN_IF_ERROR(run_.updater->Refresh(run_.parameters));
  if (share.overflowed) {
    share.not_finite.reset();
    Neutralize(run_.parameters, own.gradients);
    return absl::OkStatus();
  }
  // Of parameters that are not finite every step would be left out, to the end.
  share.skipped = FirstNotFinite(run_.parameters).empty();
  if (!share.skipped) return absl::OkStatus();
  Neutralize(run_.parameters, own.gradients);
  own.model.ResetState();
  return absl::OkStatus();
}

absl::Status StepRunner::Conclude(BatchesOfStep batches, const std::vector<Share>& shares, StepRecord& record) {
  double loss = 0;
  int64_t counted = 0;
  for (size_t device = 0; device < shares.size(); ++device) {
    const Share& share = shares[device];
    TY_RETURN_IF_ERROR(share.status);
    if (batches[device]->examples == 0) continue;
    if (share.not_finite && !share.skipped) {
      record.loss = share.loss;
      run_.recorder->OnNotFinite(record);
      return NotFiniteError(
          *share.not_finite,
          {.replica = NameOf(device), .step = record.step, .learning_rate = LearningRateAt(run_.config.optimizer, run_.global_step)},
          *batches[device]);
    }
    if (share.skipped) {
      LogWarning("{} at step {}, {}: the step is left out (training.onNonFinite: skip)", *share.not_finite, record.step, NameOf(device));
      record.skipped = true;
      if (counted == 0) record.loss = share.loss;
      continue;
    }
    record.overflowed = record.overflowed || share.overflowed;
    counted += batches[device]->examples;
    loss += (share.loss - loss) * static_cast<double>(batches[device]->examples) / static_cast<double>(counted);
  }
  if (counted > 0) record.loss = loss;
  return absl::OkStatus();
}

StepContext StepRunner::ContextOf(const Device& device) const {
  return {.seed = run_.config.seed,
          .step = static_cast<uint64_t>(run_.step),
          .worker = static_cast<uint32_t>(device.rank),
          .training = true,
          .loss_scale = LossScaleNow()};
}

std::string StepRunner::NameOf(size_t device) const {
  return run_.devices.size() == 1 ? run_.Name() : fmt::format("{} device {}", run_.Name(), device);
}

absl::Status StepRunner::Finish(StepRecord& record, bool profiled) {
  TY_ASSIGN_OR_RETURN(const StepResult result, run_.updater->Wait(run_.parameters));
  FollowLossScale(record);
  record.end = run_.clock.Now();
  record.global_step = run_.global_step = result.global_step;
  if (run_.async()) run_.recorder->OnPlan(run_.JobSteps(run_.end_step));
  record.staleness = result.staleness;
  if (result.ended) {
    if (run_.async()) ++run_.step;
    run_.EndHere();
    if (!run_.async()) return absl::OkStatus();
  }
  // Every worker sees it; the report counts it once.
  if (result.refilled > 0 && run_.chief()) {
    run_.recorder->OnRestart({.replica = "ps",
                              .reason = fmt::format("{} had lost {} state and has the chief's newest values",
                                                    result.refilled == 1 ? "1 server" : fmt::format("{} servers", result.refilled),
                                                    result.refilled == 1 ? "its" : "their"),
                              .step = result.global_step,
                              .lost_steps = result.lost_steps});
  }
  if (profiled) {
    run_.profiler->EndStep(record);
    if (record.step + 1 == run_.config.profile.steps.end) WriteProfile();
  }
  paces_.OnStep(record);
  return run_.recorder->OnStep(record);
}

void StepRunner::FollowLossScale(const StepRecord& record) {
  if (!run_.loss_scale || record.examples == 0) return;
  LossScale& scale = *run_.loss_scale;
  const float before = scale.value();
  if (record.overflowed) {
    scale.OnOverflow();
    LogInfo("step {}: gradients overflowed at loss scale {} and are left out; the scale becomes {}", record.step, before, scale.value());
  } else if (record.skipped) {
    scale.OnNotFinite();
  } else {
    scale.OnGoodStep();
    if (scale.value() != before) LogInfo("step {}: the loss scale becomes {}", record.step, scale.value());
  }
}

void StepRunner::WriteProfile() {
  if (!run_.profiler->HasNews()) return;
  absl::Status written = run_.profiler->Write();
  written.Update(run_.recorder->OnNodeTimes(run_.config.profile.steps, run_.profiler->MeanNodeNanos()));
  if (!written.ok()) LogWarning("no profile; the training goes on: {}", std::string(written.message()));
}

}  // namespace trainyard::engine
