#include "operator/plan/status_timing.h"

#include <algorithm>

#include "operator/plan/conditions.h"

namespace trainyard::control {
namespace {

// That a column of `kubectl get` is filled for the first time: the first answer of the chief is
// waited for.
std::optional<Progress> WhatIsShown(const std::optional<Progress>& progress) {
  if (!progress) return std::nullopt;
  Progress shown;
  if (progress->loss) shown.loss = 0;
  if (progress->examples_per_second) shown.examples_per_second = 0;
  return shown;
}

// What may wait to be written together with the next change.
TrainingJobStatus WithoutCounts(TrainingJobStatus status) {
  status.message.clear();
  status.progress = WhatIsShown(status.progress);
  if (status.serving) status.serving = Serving{.url = status.serving->url};
  for (Condition& condition : status.conditions) condition.message.clear();
  for (auto& [role, counts] : status.replica_statuses) {
    const int desired = counts.desired;
    counts = {};
    counts.desired = desired;
  }
  // That a recreated replica's record names its new pod follows from the pod.
  for (RestartRecord& record : status.restart_records) {
    record.restarts = record.Spent();
    record.pod_restarts = 0;
    record.pod_free_restarts = 0;
    record.pod_uid.clear();
    record.pod_counted = false;
  }
  return status;
}

// Whether two statuses differ in more than counts, messages and progress.
bool DiffersUrgently(const TrainingJobStatus& before, const TrainingJobStatus& after) {
  return WithoutCounts(before) != WithoutCounts(after);
}

// Whether `after` is a job's first status, and nothing has happened to the job but that its
// children are being made.
bool SaysOnlyThatItStarts(const TrainingJobStatus& before, const TrainingJobStatus& after) {
  if (before != TrainingJobStatus{} || after.phase != JobPhase::kPending || !after.restart_records.empty() || after.failure) return false;
  return std::all_of(after.conditions.begin(), after.conditions.end(),
                     [](const Condition& condition) { return condition.type == kCreated || !condition.status; });
}

}  // namespace

StatusTiming TimingOf(const TrainingJobStatus& before, const TrainingJobStatus& after, bool only_creates) {
  if (only_creates && SaysOnlyThatItStarts(before, after)) return StatusTiming::kAfterChildren;
  return DiffersUrgently(before, after) ? StatusTiming::kAtOnce : StatusTiming::kSettled;
}

absl::Duration StatusDelay(const UnwrittenStatus& status, const StatusWriteOptions& options) {
  const absl::Duration at_most = options.at_most - status.age;
  absl::Duration delay;
  if (status.timing == StatusTiming::kSettled) delay = std::min(options.settle - status.unchanged, at_most);
  if (status.timing == StatusTiming::kAfterChildren && status.others_are_new) delay = at_most;
  return std::max(delay, absl::ZeroDuration());
}

}  // namespace trainyard::control
