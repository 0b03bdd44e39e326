#include "operator/trainingjob/stall.h"

#include <fmt/format.h>

#include <algorithm>

#include "operator/base/clock.h"
#include "operator/trainingjob/conditions.h"

namespace trainyard::control {
namespace {

Stall TakenNames(const Situation& situation) {
  Stall stall{.reason = "NameTaken"};
  for (const auto& [child, holder] : situation.observed.taken) {
    stall.message +=
        fmt::format("{}{} {} exists and is {}", stall.message.empty() ? "" : "; ", KindName(child.first), child.second, holder);
  }
  stall.message += "; delete or rename it, or give the job another name";
  stall.look_again_at = situation.now + situation.options.retry_taken_after;
  return stall;
}

// A pod that cannot start.
Stall StartStall(const Situation& situation, const Restarts& restarts) {
  Stall stall;
  for (const auto& [id, state] : restarts.states) {
    if (state != PodState::kWaiting) continue;
    const Pod& pod = *situation.observed.pods.at(id);
    const std::optional<Obstacle> obstacle = StartObstacle(pod);
    if (!obstacle) continue;
    const absl::Time stalled_at = pod.meta.creation_time + situation.options.stalled_start_after;
    if (situation.now < stalled_at) {
      stall.look_again_at = std::min(stalled_at, stall.look_again_at.value_or(absl::InfiniteFuture()));
      continue;
    }
    stall.reason = obstacle->reason;
    stall.message = fmt::format("{} cannot start: {}: {}", Name(id), obstacle->reason, obstacle->message);
    break;
  }
  return stall;
}

Stall ProgressStall(const Situation& situation, const TrainingJobStatus& status) {
  if (!status.IsTrue(kRunning) || !status.progress) return {};
  const absl::Time since = std::max(status.progress->updated_time, status.Find(kRunning)->last_transition);
  const absl::Time stalled_at = since + situation.options.stalled_progress_after;
  if (situation.now < stalled_at) return {.look_again_at = stalled_at};
  return {.reason = "NoProgress",
          .message = fmt::format("{} has reported step {} since {}; look at its log", Name(ChiefOf(situation.job)), status.progress->step,
                                 FormatTimestamp(status.progress->updated_time))};
}

}  // namespace

Stall FindStall(const Situation& situation, const TrainingJobStatus& status, const Restarts& restarts) {
  if (!situation.observed.taken.empty()) return TakenNames(situation);
  Stall start = StartStall(situation, restarts);
  if (!start.reason.empty()) return start;
  Stall progress = ProgressStall(situation, status);
  if (start.look_again_at) {
    progress.look_again_at = std::min(*start.look_again_at, progress.look_again_at.value_or(absl::InfiniteFuture()));
  }
  return progress;
}

}  // namespace trainyard::control
