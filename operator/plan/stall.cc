#include "operator/plan/stall.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "operator/base/timestamp.h"
#include "operator/children/avoided_nodes.h"
#include "operator/children/child_kinds.h"
#include "operator/plan/conditions.h"
#include "operator/plan/ending_pods.h"
#include "operator/plan/queue_wait.h"
#include "operator/plan/start_obstacle.h"

namespace trainyard::control {
namespace {

Stall TakenNames(const Situation& situation) {
  constexpr int kShown = 3;
  Stall stall{.reason = "NameTaken"};
  int shown = 0;
  for (const auto& [child, holder] : situation.observed.taken) {
    if (++shown > kShown) break;
    stall.message +=
        fmt::format("{}{} {} exists and is {}", stall.message.empty() ? "" : "; ", TraitsOf(child.first).name, child.second, holder);
  }
  if (const size_t all = situation.observed.taken.size(); all > kShown) stall.message += fmt::format("; and {} more", all - kShown);
  stall.message += "; delete or rename it, or give the job another name";
  stall.requeue_at = situation.now + situation.options.retry_taken_after;
  return stall;
}

// Until children are there, the last condition holds: an operator that has just started has not
// asked yet.
Stall RefusedCreation(const Situation& situation) {
  if (const std::optional<Refusal>& refusal = situation.observed.refusal) {
    return {.reason = std::string(kCannotCreate),
            .message = DescribeRefusal(situation.job, *refusal),
            .blames_the_spec = BlamesTheSpec(*refusal)};
  }
  const Condition* stalled = situation.job.status.Find(kStalled);
  if (stalled == nullptr || !stalled->status || stalled->reason != kCannotCreate) return {};
  const Condition* invalid = situation.job.status.Find(kInvalid);
  return {.reason = stalled->reason,
          .message = stalled->message,
          .blames_the_spec = invalid != nullptr && invalid->status && invalid->reason == kRefusedByServer};
}

std::string AvoidedNodes(const TrainingJob& job, const ReplicaId& id) {
  const std::vector<std::string> nodes = NodesToAvoid(job, id);
  if (nodes.empty()) return "";
  return fmt::format("; by runPolicy.avoidFailedNodes it keeps away from {}", fmt::join(nodes, ", "));
}

// Volcano's scheduler passes over pods whose queue it does not know.
std::string QueueToCheck(const TrainingJob& job, const Pod& pod) {
  const Scheduling& scheduling = job.spec.run_policy.scheduling;
  if (scheduling.gang != Gang::kVolcano || scheduling.queue.empty() || pod.scheduler_spoke) return "";
  return fmt::format("; or its queue is not there: kubectl get queues.scheduling.volcano.sh {}", scheduling.queue);
}

// A PodGroup of v1alpha2 keeps its first minimum. After a scale below it the group never has enough
// pods for its scheduler, whatever room there is.
std::optional<Obstacle> GroupObstacle(const Situation& situation, const Pod& pod, const ObstaclePatience& patience) {
  const TrainingJob& job = situation.job;
  const auto group = situation.observed.unwatched.find(ChildKind::kPodGroup);
  if (job.spec.run_policy.scheduling.GroupFollowsScale() || group == situation.observed.unwatched.end()) return std::nullopt;
  const Unwatched& known = group->second;
  const int replicas = job.spec.AllReplicas();
  if (known.min_member <= replicas || !pod.node.empty()) return std::nullopt;
  return Obstacle{"Unschedulable",
                  fmt::format("its PodGroup asks for {} pods, a number that cannot change, and the job was scaled to {}; set "
                              "runPolicy.suspend to true, and to false when the job is Suspended: it then gets another PodGroup",
                              known.min_member, replicas),
                  pod.meta.creation_time + patience.refused};
}

// The first pod that cannot start, and how many more there are for the same reason.
Stall StartStall(const Situation& situation, const Restarts& restarts) {
  const ObstaclePatience patience{situation.options.stalled_start_after, situation.options.stalled_creation_after};
  Stall stall;
  std::string first;
  std::string message;
  int more = 0;
  const bool waits_its_turn = !DescribeQueueWait(situation, restarts).empty();
  for (const auto& [id, state] : restarts.states) {
    if (state != PodState::kWaiting) continue;
    const Pod& pod = *situation.observed.pods.at(id);
    const std::optional<Obstacle> group = GroupObstacle(situation, pod, patience);
    const std::optional<Obstacle> obstacle = group ? group : StartObstacle(id, pod, patience);
    if (!obstacle || (!group && waits_its_turn && !pod.unschedulable.empty())) continue;
    if (situation.now < obstacle->stalled_at) {
      stall.requeue_at = std::min(obstacle->stalled_at, stall.requeue_at.value_or(absl::InfiniteFuture()));
    } else if (first.empty()) {
      first = Name(id);
      stall.reason = obstacle->reason;
      message = obstacle->message;
      if (pod.node.empty()) message += QueueToCheck(situation.job, pod) + AvoidedNodes(situation.job, id);
    } else if (stall.reason == obstacle->reason) {
      ++more;
    }
  }
  if (!first.empty()) {
    stall.message = fmt::format("{}{} cannot start: {}", first, more > 0 ? fmt::format(" (and {} more)", more) : "", message);
  }
  return stall;
}

// Of jobs whose progress is asked for.
Stall ProgressStall(const Situation& situation, const TrainingJobStatus& status) {
  const std::optional<int> port = situation.job.spec.ProgressPort();
  if (!status.IsTrue(kRunning) || !port) return {};
  absl::Time since = status.Find(kRunning)->last_transition;
  if (status.progress) since = std::max(since, status.progress->updated_time);
  const absl::Time stalled_at = since + situation.options.stalled_progress_after;
  if (situation.now < stalled_at) return {.requeue_at = stalled_at};
  const std::string& problem = situation.observed.chief_problem;
  const std::string chief = Name(ReporterOf(situation.job));
  if (!status.progress && problem.empty()) return {};
  const std::string reported = status.progress ? fmt::format("{} has reported step {} since {}", chief, status.progress->step,
                                                             FormatTimestamp(status.progress->updated_time))
                                               : fmt::format("{} has not answered since {}", chief, FormatTimestamp(since));
  if (problem.empty()) {
    return {.reason = "NoProgress",
            .message = fmt::format("{}; it hangs, or waits for a replica that does: kubectl logs -l {}={} -n {} --prefix --tail=5 shows "
                                   "the last lines of all",
                                   reported, kJobNameLabel, situation.job.meta.name, situation.job.meta.name_space)};
  }
  return {.reason = "Unreachable",
          .message = fmt::format("{}{}: {}; look at its log, and whether the operator may reach its port {}", reported,
                                 status.progress ? " and does not answer now" : "", problem, *port)};
}

}  // namespace

Stall FindStall(const Situation& situation, const TrainingJobStatus& status, const Restarts& restarts, bool children_missing) {
  if (!situation.observed.taken.empty()) return TakenNames(situation);
  if (children_missing) {
    if (Stall refused = RefusedCreation(situation); !refused.reason.empty()) return refused;
  }
  const Stall ending = FindPodThatStays(situation);
  if (!ending.reason.empty()) return ending;
  Stall start = StartStall(situation, restarts);
  if (!start.reason.empty()) return start;
  if (ending.requeue_at) start.requeue_at = std::min(*ending.requeue_at, start.requeue_at.value_or(absl::InfiniteFuture()));
  Stall progress = ProgressStall(situation, status);
  if (start.requeue_at) {
    progress.requeue_at = std::min(*start.requeue_at, progress.requeue_at.value_or(absl::InfiniteFuture()));
  }
  return progress;
}

}  // namespace trainyard::control
