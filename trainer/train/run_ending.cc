#include "trainer/train/run_ending.h"

#include <string>
#include <utility>

#include "trainer/base/log.h"
#include "trainer/base/status_macros.h"
#include "trainer/job/exit_code.h"

namespace trainyard::engine {

absl::Status RunEnding::Finished() {
  ReplicaReport report;
  // An error beside the result is told when all others have what they wait for.
  absl::Status concluded = layer_state_.SaveAtEnd();  // for a run that goes on from here
  if (run_.chief()) {
    absl::StatusOr<ReplicaReport> result = chief_.Conclude();
    // Asked to stop while it evaluates: what was trained is kept, as in the middle of the training.
    if (absl::IsCancelled(result.status())) return Unfinished(result.status());
    TY_RETURN_IF_ERROR(result.status());
    report = *std::move(result);
  }
  // The result is on disk: from here on no replica is needed any more. The goodbye is the last
  // thing that this one does, so that a restart finds its servers.
  if (run_.sync()) TY_RETURN_IF_ERROR(run_.chief() ? run_.updater->Release() : run_.updater->AwaitRelease());
  if (run_.redone != nullptr) concluded.Update(run_.redone->End());
  concluded.Update(run_.recorder->Finish(std::move(report), run_.updater->bytes_sent(), run_.updater->bytes_received()));
  if (concluded.ok() || !CanBeCuredByRestart(ExitCodeOf(concluded))) run_.updater->Done();
  return concluded;
}

absl::Status RunEnding::Unfinished(absl::Status trained) {
  if (absl::IsCancelled(trained)) {
    if (const absl::Status stopped = Stopped(); !stopped.ok()) trained = stopped;
  }
  ReplicaReport report = run_.chief() ? chief_.Report() : ReplicaReport();  // this replica's knowledge of the job so far
  const absl::Status reported = run_.recorder->WriteReport(std::move(report), run_.updater->bytes_sent(), run_.updater->bytes_received());
  if (!reported.ok()) LogWarning("{}", std::string(reported.message()));
  return trained;
}

absl::Status RunEnding::Stopped() {
  absl::Status concluded;
  if (run_.chief()) {
    const absl::Status saved = checkpoints_.SaveNow();
    const bool elsewhere = run_.sync() && (!run_.all_reduce() || run_.config.strategy.shard_optimizer);
    if (elsewhere && !saved.ok()) {
      // What other replicas have of the state is lost or torn. The training goes on from the
      // checkpoint before.
      LogWarning("no checkpoint of step {}: {}", run_.step, std::string(saved.message()));
    } else {
      concluded.Update(saved);
    }
    if (const int64_t step = run_.saver->checkpointed_step(); step >= 0) run_.recorder->OnStopped(step);
  }
  concluded.Update(layer_state_.SaveStopped());
  if (!run_.chief()) run_.updater->ServeOthers();
  if (!run_.sync()) run_.updater->Leave();  // a synchronous step waits for the worker that is started in place of this one
  return concluded;
}

}  // namespace trainyard::engine
