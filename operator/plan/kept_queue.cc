#include "operator/plan/kept_queue.h"

#include <fmt/format.h>

#include <utility>

namespace trainyard::control {

std::optional<TrainingJob> InQueueOfItsPods(const TrainingJob& job, const Pod* pod) {
  if (pod == nullptr || job.status.Finished() || pod->kueue_queue == job.spec.run_policy.scheduling.kueue_queue) return std::nullopt;
  TrainingJob kept = job;
  Scheduling& scheduling = kept.spec.run_policy.scheduling;
  scheduling.later_queue = std::exchange(scheduling.kueue_queue, pod->kueue_queue);
  return kept;
}

std::string DescribeKeptQueue(const Scheduling& scheduling) {
  if (!scheduling.later_queue) return "";
  const auto queue = [](const std::string& name) { return name.empty() ? "no queue of Kueue" : "queue " + name + " of Kueue"; };
  return fmt::format("its pods stay in {}, though its label names {} now: suspend the job and resume it to follow the label",
                     queue(scheduling.kueue_queue), queue(*scheduling.later_queue));
}

}  // namespace trainyard::control
