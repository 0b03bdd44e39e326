#include "trainer/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/job/exit_code.h"
#include "trainer/train/make_input.h"

namespace trainyard::engine {

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(TrainerOptions options, Backend& backend, Clock& clock) {
  TY_ASSIGN_OR_RETURN(std::unique_ptr<TrainingRun> run, AssembleRun(std::move(options), backend, clock));
  return std::unique_ptr<Trainer>(new Trainer(std::move(run)));
}

Trainer::Trainer(std::unique_ptr<TrainingRun> run)
    : run_(std::move(run)),
      layer_state_(*run_),
      checkpoints_(*run_, layer_state_),
      chief_(*run_, layer_state_, checkpoints_),
      step_(*run_) {}

absl::Status Trainer::Run(const std::function<bool()>& stop) {
  run_->stop = stop;
  while (true) {
    const absl::StatusOr<TrainingStart> start = run_->updater->Start(run_->parameters);
    // What a rank of an all-reduce has in memory is whole while it waits for the others.
    if (run_->begun && run_->all_reduce() && absl::IsCancelled(start.status())) return EndUnfinished(start.status());
    TY_RETURN_IF_ERROR(start.status());
    TY_RETURN_IF_ERROR(Begin(*start));
    const absl::Status trained = RunFromStart();
    if (!IsRolledBack(trained)) return trained;
    LogWarning("worker {}: step {}: {}", run_->rank(), run_->step, std::string(trained.message()));
  }
}

absl::Status Trainer::RunSteps() {
  Prefetcher input(*run_->train_data, *run_->sampler, PrefetchOptions(run_->config, run_->step, run_->end_step), run_->clock);
  TY_RETURN_IF_ERROR(PrepareSteps());
  while (run_->step < run_->end_step) {
    if (run_->stop()) return absl::CancelledError(fmt::format("stopped at step {}", run_->step));
    const absl::Time start = run_->clock.Now();
    TY_ASSIGN_OR_RETURN(const Batch* const batch, NextBatch(input));
    if (batch->examples > 0) TY_RETURN_IF_ERROR(layer_state_.Begin(*batch));
    layer_state_.EnterStep();
    TY_RETURN_IF_ERROR(step_.Run(*batch, start));
    if (run_->ended && run_->sync()) return absl::OkStatus();  // the step was not applied: it never was
    layer_state_.LeaveStep();
    if (run_->ended) return absl::OkStatus();
    ++run_->step;
    TY_RETURN_IF_ERROR(FollowUp(*batch));
  }
  return absl::OkStatus();
}

absl::StatusOr<const Batch*> Trainer::NextBatch(Prefetcher& input) {
  const ActivityTicker::Work work(*run_->ticker);
  TY_ASSIGN_OR_RETURN(const Batch* const batch, input.Next(run_->config.timeouts.input));
  if (run_->step == 0 && run_->chief() && batch->examples > 0) TY_RETURN_IF_ERROR(run_->recorder->OnImages(*batch));
  return batch;
}

absl::Status Trainer::FollowUp(const Batch& batch) {
  if (run_->chief()) {
    TY_RETURN_IF_ERROR(checkpoints_.Follow());
    TY_RETURN_IF_ERROR(chief_.FollowEvaluator());
  }
  TY_RETURN_IF_ERROR(checkpoints_.SaveIfDue());
  const int64_t every = run_->config.evaluate.every_steps;
  if (every > 0 && run_->step % every == 0 && run_->step < run_->end_step) TY_RETURN_IF_ERROR(chief_.EvaluateNow(batch.epoch).status());
  return batch.last_in_epoch ? EndEpoch(batch) : absl::OkStatus();
}

absl::Status Trainer::EndEpoch(const Batch& batch) {
  if (run_->step >= run_->end_step) return absl::OkStatus();  // the last one is evaluated when the other workers are done, too
  std::map<std::string, double> metrics;
  const int64_t every = run_->config.evaluate.every_epochs;
  if (every > 0 && (batch.epoch + 1) % every == 0) {
    TY_ASSIGN_OR_RETURN(metrics, chief_.EvaluateNow(batch.epoch));
  }
  if (run_->ended) return absl::OkStatus();
  return run_->recorder->OnEpoch(batch.epoch, run_->global_step, metrics, run_->parameters);
}

absl::Status Trainer::Begin(const TrainingStart& start) {
  TrainingRun& run = *run_;
  run.start = start;
  run.step = start.worker_step;
  run.global_step = start.global_step;
  run.end_step = run.planned_end;
  run.ended = false;
  layer_state_.Forget();
  if (!run.begun && start.joined && run.step > 0) {
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
    TY_ASSIGN_OR_RETURN(Executor* const executor, run.model.TrainingExecutor(std::max<int64_t>(1, run.sampler->At(run.step).examples())));
    if (run.chief() && !run.begun) TY_RETURN_IF_ERROR(run.recorder->OnGraph(executor->graph()));
  }
  if (!run.begun) run.recorder->OnStart(run.global_step);
  run.begun = true;
  return absl::OkStatus();
}

absl::Status Trainer::RunFromStart() {
  TrainingRun& run = *run_;
  if (run.chief()) TY_RETURN_IF_ERROR(chief_.Begin());
  if (run.start.ended && run.step < run.end_step) run.EndHere();
  LogInfo("{} worker {} of {}: {}, steps {} to {}, batch {}, {} parameters", StrategyText(run.config.strategy), run.rank(), run.workers(),
          run.train_data->info().name, run.step, run.end_step, run.config.batch_size, run.parameters.elements());
  if (run.step >= run.end_step) LogInfo("all {} steps are done already: nothing to train", run.end_step);
  const absl::Status trained = RunSteps();
  if (IsRolledBack(trained)) return trained;
  step_.WriteProfile();  // of a run that ended before the last step to profile
  return trained.ok() ? Conclude() : EndUnfinished(trained);
}

absl::Status Trainer::EndUnfinished(absl::Status trained) {
  if (absl::IsCancelled(trained)) {
    if (const absl::Status stopped = ConcludeStopped(); !stopped.ok()) trained = stopped;
  }
  const absl::Status reported = run_->recorder->WriteReport(Report(), run_->updater->bytes_sent(), run_->updater->bytes_received());
  if (!reported.ok()) LogWarning("{}", std::string(reported.message()));
  return trained;
}

absl::Status Trainer::ConcludeStopped() {
  absl::Status concluded;
  if (run_->chief()) {
    const absl::Status saved = checkpoints_.SaveNow();
    if (run_->sync() && !run_->all_reduce() && !saved.ok()) {
      // The servers' values are lost or torn. The training goes on from the checkpoint before.
      LogWarning("no checkpoint of step {}: {}", run_->step, std::string(saved.message()));
    } else {
      concluded.Update(saved);
    }
  }
  concluded.Update(layer_state_.SaveStopped());
  if (!run_->sync()) run_->updater->Leave();  // a synchronous step waits for the worker that is started in place of this one
  return concluded;
}

absl::Status Trainer::Conclude() {
  ReplicaReport report;
  // An error beside the result is told when all others have what they wait for.
  absl::Status concluded = layer_state_.SaveAtEnd();  // for a run that goes on from here
  if (run_->chief()) {
    TY_ASSIGN_OR_RETURN(report, chief_.Conclude());
  }
  // The result is on disk: from here on no replica is needed any more. The goodbye is the last thing that this one does, so that a restart
  // finds its servers.
  if (run_->sync()) TY_RETURN_IF_ERROR(run_->chief() ? run_->updater->Release() : run_->updater->AwaitRelease());
  concluded.Update(run_->recorder->Finish(std::move(report), run_->updater->bytes_sent(), run_->updater->bytes_received()));
  if (concluded.ok() || !CanBeCuredByRestart(ExitCodeOf(concluded))) run_->updater->Done();
  return concluded;
}

}  // namespace trainyard::engine
