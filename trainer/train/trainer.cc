#include "trainer/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/train/make_input.h"

namespace trainyard::engine {
namespace {

// Whether the parameters are to be evaluated after `steps` steps, whose last one belongs to
// `epoch`.
bool EvaluationIsDue(const EvaluateConfig& config, int64_t steps, int64_t epoch, bool last_in_epoch) {
  const bool by_steps = config.every_steps > 0 && steps % config.every_steps == 0;
  const bool by_epochs = config.every_epochs > 0 && last_in_epoch && (epoch + 1) % config.every_epochs == 0;
  return by_steps || by_epochs;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(TrainerOptions options, const WorkerBackends& backends, Clock& clock) {
  TY_ASSIGN_OR_RETURN(std::unique_ptr<TrainingRun> run, AssembleRun(std::move(options), backends, clock));
  return std::unique_ptr<Trainer>(new Trainer(std::move(run)));
}

Trainer::Trainer(std::unique_ptr<TrainingRun> run)
    : run_(std::move(run)),
      layer_state_(*run_),
      checkpoints_(*run_, layer_state_),
      chief_(*run_, layer_state_, checkpoints_),
      ending_(*run_, layer_state_, checkpoints_, chief_),
      step_(*run_) {}

absl::Status Trainer::Run(const std::function<bool()>& stop) {
  run_->stop = stop;
  while (true) {
    const absl::StatusOr<TrainingStart> start = run_->updater->Start(run_->parameters);
    // A rank of an all-reduce has a whole step in memory while it waits for the others.
    if (run_->begun && run_->all_reduce() && absl::IsCancelled(start.status())) return ending_.Unfinished(start.status());
    TY_RETURN_IF_ERROR(start.status());
    TY_RETURN_IF_ERROR(Begin(*start));
    const absl::Status trained = RunFromStart();
    if (!IsRolledBack(trained)) return trained;
    LogWarning("worker {}: step {}: {}", run_->rank(), run_->step, std::string(trained.message()));
  }
}

absl::Status Trainer::RunSteps() {
  DeviceBatches input(*run_->train_data, run_->devices, PrefetchOptions(run_->config, run_->step, run_->end_step), run_->clock);
  TY_RETURN_IF_ERROR(PrepareSteps());
  TY_RETURN_IF_ERROR(CatchUp());
  while (run_->step < run_->end_step) {
    if (run_->stop()) return absl::CancelledError(fmt::format("stopped at step {}", run_->step));
    const absl::Time start = run_->clock.Now();
    TY_ASSIGN_OR_RETURN(const BatchesOfStep batches, NextBatches(input));
    if (ExamplesOf(batches) > 0) TY_RETURN_IF_ERROR(layer_state_.Begin(batches));
    layer_state_.EnterStep();
    TY_RETURN_IF_ERROR(step_.Run(batches, start));
    if (run_->ended && run_->sync()) return absl::OkStatus();  // the step was not applied: it never was
    layer_state_.LeaveStep();
    if (run_->ended) return absl::OkStatus();
    ++run_->step;
    TY_RETURN_IF_ERROR(FollowUp(*batches[0]));
  }
  return absl::OkStatus();
}

absl::StatusOr<BatchesOfStep> Trainer::NextBatches(DeviceBatches& input) {
  const ActivityTicker::Work work(*run_->ticker);
  TY_ASSIGN_OR_RETURN(const BatchesOfStep batches, input.Next(run_->config.timeouts.input));
  if (run_->step == 0 && run_->chief() && batches[0]->examples > 0) TY_RETURN_IF_ERROR(run_->recorder->OnImages(*batches[0]));
  return batches;
}

absl::Status Trainer::FollowUp(const Batch& batch) {
  if (run_->chief()) {
    TY_RETURN_IF_ERROR(checkpoints_.Follow());
    TY_RETURN_IF_ERROR(chief_.FollowEvaluator());
  }
  TY_RETURN_IF_ERROR(checkpoints_.SaveIfDue(batch));
  if (run_->step >= run_->end_step) return absl::OkStatus();  // the last step is evaluated when the other workers are done, too
  std::map<std::string, double> metrics;
  if (EvaluationIsDue(run_->config.evaluate, run_->step, batch.epoch, batch.last_in_epoch)) {
    TY_ASSIGN_OR_RETURN(metrics, chief_.EvaluateNow(batch.epoch));
  }
  if (run_->ended || !batch.last_in_epoch) return absl::OkStatus();
  TY_RETURN_IF_ERROR(run_->updater->Refresh(run_->parameters));
  return run_->recorder->OnEpoch(batch.epoch, run_->global_step, metrics, run_->parameters);
}

// The chief that did the step before may have been lost before it evaluated, or told of the epoch.
// Workers of an asynchronous job have steps of their own, so that nobody knows which evaluation
// that was. The last step's evaluation and epoch are those of the end.
absl::Status Trainer::CatchUp() {
  TrainingRun& run = *run_;
  if (!run.chief() || run.async() || run.step == 0 || run.step >= run.end_step) return absl::OkStatus();
  const SamplerStep last = run.sampler->At(run.step - 1);
  std::map<std::string, double> metrics;
  if (const Evaluation* const known = run.book->Find(run.global_step); known != nullptr) {
    metrics = known->metrics;
  } else if (EvaluationIsDue(run.config.evaluate, run.step, last.epoch, last.last_in_epoch)) {
    TY_ASSIGN_OR_RETURN(metrics, chief_.EvaluateNow(last.epoch));
  }
  if (run.ended || !last.last_in_epoch || !run.recorder->OwesEpoch(run.global_step)) return absl::OkStatus();
  TY_RETURN_IF_ERROR(run.updater->Refresh(run.parameters));
  return run.recorder->OnEpoch(last.epoch, run.global_step, metrics, run.parameters);
}

absl::Status Trainer::Begin(const TrainingStart& start) {
  TrainingRun& run = *run_;
  run.start = start;
  run.step = start.worker_step;
  run.global_step = start.global_step;
  if (start.origin) run.GoOnFrom(*start.origin);
  run.end_step = run.planned_end;
  run.ended = false;
  layer_state_.Forget();
  if (run.config.strategy.kind != StrategyConfig::Kind::kParameterServer) run.recorder->OnSlotBytes(run.updater->slot_bytes());
  if (!run.begun && start.joined && run.chief()) {
    const RunSaver::NotedLosses noted = run.saver->NewestLosses();
    if (noted.start) run.recorder->OnLossStart(*noted.start);
    run.recorder->OnEpochLoss(noted.of_epoch);
  }
  if (!run.begun && start.again) {
    run.recorder->OnRestart({.replica = run.Name(), .reason = "joined a running job", .step = run.global_step});
  }
  if (run.begun) {
    run.profiler->AbandonStep();
    run.recorder->OnRollback(run.global_step, run.JobSteps(run.end_step));
  }
  return absl::OkStatus();
}

absl::Status Trainer::PrepareSteps() {
  TrainingRun& run = *run_;
  if (run.step < run.end_step) {
    for (const std::unique_ptr<Device>& device : run.devices) {
      const int64_t examples = std::max<int64_t>(1, device->sampler.At(run.step).examples());
      TY_ASSIGN_OR_RETURN(Executor* const executor, device->model.TrainingExecutor(examples));
      const bool first = device == run.devices[0];
      if (first && run.chief() && !run.begun) TY_RETURN_IF_ERROR(run.recorder->OnGraph(executor->graph()));
    }
  }
  if (!run.begun) run.recorder->OnStart(run.global_step, run.JobSteps(run.end_step));
  run.begun = true;
  return absl::OkStatus();
}

absl::Status Trainer::RunFromStart() {
  TrainingRun& run = *run_;
  if (run.chief()) TY_RETURN_IF_ERROR(chief_.Begin());
  if (run.start.ended && run.step < run.end_step) run.EndHere();
  LogInfo("{} worker {} of {}: {}, steps {} to {}, {} of batch {}, {} parameters, {} by {}", StrategyText(run.config.strategy), run.rank(),
          run.workers(), run.train_data->info().name, run.step, run.end_step,
          run.config.devices == 1 ? "1 device" : fmt::format("{} devices", run.config.devices), run.config.batch_size,
          run.parameters.elements(), PrecisionName(run.precision.precision), run.kernels);
  if (!run.precision.reason.empty()) {
    LogInfo("precision: auto takes {}: {}", PrecisionName(run.precision.precision), run.precision.reason);
  }
  if (!run.place.reason.empty()) LogInfo("devices: {}, because {}", ChosenText(run.place), run.place.reason);
  if (!run.place.advice.empty()) LogWarning("devices: {}", run.place.advice);
  if (run.step >= run.end_step) LogInfo("all {} steps are done already: nothing to train", run.end_step);
  const absl::Status trained = RunSteps();
  if (run.redone != nullptr) run.redone->Reach(run.step);  // a rollback may take the chief along
  if (IsRolledBack(trained)) return trained;
  step_.WriteProfile();  // of a run that ended before the last step to profile
  return trained.ok() ? ending_.Finished() : ending_.Unfinished(trained);
}

}  // namespace trainyard::engine
