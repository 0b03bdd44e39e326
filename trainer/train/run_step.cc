#include "trainer/train/run_step.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/optim/lr_schedule.h"
#include "trainer/tensor/finite.h"
#include "trainer/train/not_finite.h"

namespace trainyard::engine {

StepRunner::StepRunner(TrainingRun& run)
    : run_(run),
      pusher_(*run.updater, run.gradients,
              {.clip_norm = run.config.optimizer.clip_norm,
               .may_skip = run.config.on_non_finite == OnNonFinite::kSkip,
               .every_key = run.sync()}) {}

absl::Status StepRunner::Run(const Batch& batch, absl::Time start) {
  StepRecord record{.step = run_.step,
                    .epoch = batch.epoch,
                    .examples = batch.examples,
                    .input = batch.stages.spans(),
                    .start = start,
                    .input_done = run_.clock.Now()};
  const bool profiled = batch.examples > 0 && run_.profiler->Wants(record.step);
  if (profiled) {
    TY_ASSIGN_OR_RETURN(Executor* const executor, run_.model.TrainingExecutor(batch.examples));
    run_.profiler->BeginStep(record.step, *executor);
  }
  if (batch.examples > 0) {
    TY_RETURN_IF_ERROR(PushGradients(batch, record));
  } else {
    PushNothing(record.step);
  }
  record.compute_done = run_.clock.Now();
  return Finish(record, profiled);
}

void StepRunner::PushNothing(int64_t step) {
  for (int key = 0; key < run_.parameters.size(); ++key) run_.updater->PushNothing(key, step);
}

absl::Status StepRunner::PushGradients(const Batch& batch, StepRecord& record) {
  const int64_t share = batch.examples * run_.workers();
  const bool whole_share = run_.async() || share == batch.global_examples;
  pusher_.Begin(record.step, whole_share ? 1.0F : static_cast<float>(share) / static_cast<float>(batch.global_examples));
  TY_ASSIGN_OR_RETURN(record.loss, run_.model.Train({.seed = run_.config.seed,
                                                     .step = static_cast<uint64_t>(record.step),
                                                     .worker = static_cast<uint32_t>(run_.rank()),
                                                     .training = true},
                                                    batch, run_.parameters, run_.gradients, &pusher_));
  TY_RETURN_IF_ERROR(CheckFiniteStep(batch, record));
  pusher_.End();
  return absl::OkStatus();
}

absl::Status StepRunner::CheckFiniteStep(const Batch& batch, StepRecord& record) {
  const bool may_skip = run_.config.on_non_finite == OnNonFinite::kSkip;
  const std::optional<std::string> found = FindNotFinite(record.loss, may_skip ? &run_.gradients : nullptr);
  if (!found) return absl::OkStatus();
  // Of parameters that are not finite every step would be left out, to the end.
  const bool diverged = !FirstNotFinite(run_.parameters).empty();
  if (!may_skip || diverged) {
    run_.recorder->OnNotFinite(record);
    return NotFiniteError(
        *found, {.replica = run_.Name(), .step = record.step, .learning_rate = LearningRateAt(run_.config.optimizer, run_.global_step)},
        batch);
  }
  LogWarning("{} at step {}, {}: the step is left out (training.onNonFinite: skip)", *found, record.step, run_.Name());
  record.skipped = true;
  Neutralize(run_.parameters, run_.gradients);
  run_.model.ResetState();
  return absl::OkStatus();
}

absl::Status StepRunner::Finish(StepRecord& record, bool profiled) {
  TY_ASSIGN_OR_RETURN(const StepResult result, run_.updater->Wait(run_.parameters));
  record.end = run_.clock.Now();
  record.global_step = run_.global_step = result.global_step;
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
  return run_.recorder->OnStep(record);
}

void StepRunner::WriteProfile() {
  if (!run_.profiler->HasNews()) return;
  absl::Status written = run_.profiler->Write();
  written.Update(run_.recorder->OnNodeTimes(run_.config.profile.steps, run_.profiler->MeanNodeNanos()));
  if (!written.ok()) LogWarning("no profile; the training goes on: {}", std::string(written.message()));
}

}  // namespace trainyard::engine
