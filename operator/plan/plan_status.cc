#include "operator/plan/plan_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "operator/api/index_set.h"
#include "operator/api/restart_records.h"
#include "operator/api/text.h"
#include "operator/plan/conditions.h"
#include "operator/plan/kept_queue.h"
#include "operator/plan/node_wait.h"
#include "operator/plan/pod_end.h"
#include "operator/plan/queue_wait.h"
#include "operator/plan/scale_down.h"
#include "operator/plan/stall.h"
#include "operator/plan/status.h"

namespace trainyard::control {
namespace {

JobPhase PhaseOf(const TrainingJobStatus& status, bool all_ready, bool restarting) {
  if (all_ready) return JobPhase::kRunning;
  if (restarting) return JobPhase::kRestarting;
  // Scaling up, or a replica that is not ready for a while, does not make a running job a pending
  // one.
  return status.running_time ? JobPhase::kRunning : JobPhase::kPending;
}

// A job that is resumed starts: what restarted before is over. So it is once all that restarted
// were ready: what is missing after that, as on a node that is lost, has not restarted.
std::vector<ReplicaId> RestartingAmong(const std::vector<ReplicaId>& missing, const Restarts& restarts, const TrainingJobStatus& status) {
  const Condition* const suspended = status.Find(kSuspended);
  const absl::Time resumed = suspended == nullptr || suspended->status ? absl::InfinitePast() : suspended->last_transition;
  const Condition* const before = status.Find(kRestarting);
  absl::Time over = before == nullptr || before->status ? absl::InfinitePast() : before->last_transition;
  if (restarts.records.size() > kRecordsAlone) over -= absl::Minutes(1);  // their times are of whole minutes
  std::map<std::string_view, const RestartRecord*> records;
  for (const RestartRecord& record : restarts.records) records[record.replica] = &record;
  const auto restarts_now = [&](const ReplicaId& id) {
    const auto found = records.find(Name(id));
    if (found == records.end()) return false;
    const bool in_place = found->second->pod_restarts > 0 && restarts.states.contains(id);
    return in_place || found->second->last_end >= std::max(resumed, over);
  };
  std::vector<ReplicaId> restarting;
  std::ranges::copy_if(missing, std::back_inserter(restarting), restarts_now);
  return restarting;
}

// "worker-1's init container fetch ended with …", of the first replica that waits because of one
// that failed; else empty. A pod that was made again knows nothing of the one before: the condition
// Restarting holds what that told.
class InitFailureTeller {
 public:
  InitFailureTeller(const Situation& situation, const TrainingJobStatus& status) : situation_(situation), status_(status) {}

  std::string Tell(const std::vector<ReplicaId>& missing) const {
    for (const ReplicaId& id : missing) {
      const Pod* const pod = Find(id);
      const std::string described = pod == nullptr ? "" : DescribeInitRetry(situation_.job, status_, id, *pod);
      if (!described.empty()) return Owner(id) + described;
    }
    const Condition* const before = situation_.job.status.Find(kRestarting);
    const size_t told = before == nullptr || !before->status ? std::string::npos : before->message.find(kSeparator);
    if (told == std::string::npos) return "";
    const std::string_view failure = std::string_view(before->message).substr(told + kSeparator.size());
    const bool holds = std::any_of(missing.begin(), missing.end(), [&](const ReplicaId& id) { return StillHolds(id, failure); });
    return holds ? std::string(failure) : "";
  }

  static constexpr std::string_view kSeparator = "; ";

 private:
  static std::string Owner(const ReplicaId& id) { return Name(id) + "'s "; }

  const Pod* Find(const ReplicaId& id) const {
    const auto pod = situation_.observed.pods.find(id);
    return pod == situation_.observed.pods.end() ? nullptr : pod->second.get();
  }

  // Until that init container has ended well.
  bool StillHolds(const ReplicaId& id, std::string_view failure) const {
    if (!failure.starts_with(Owner(id))) return false;
    const Pod* const pod = Find(id);
    if (pod == nullptr) return true;
    return std::none_of(pod->init_containers.begin(), pod->init_containers.end(), [&](const ContainerStatus& container) {
      return container.ready && failure.starts_with(fmt::format("{}init container {} ", Owner(id), container.name));
    });
  }

  const Situation& situation_;
  const TrainingJobStatus& status_;
};

// A spec that the API server refuses for good makes a job without pods invalid; a running job goes
// on.
void JudgeSpec(TrainingJobStatus& status, const Situation& situation, const Stall& stall) {
  if (stall.blames_the_spec && situation.observed.pods.empty()) {
    SetCondition(status, kInvalid, true, kRefusedByServer, stall.message, situation.Stamp());
    status.phase = JobPhase::kInvalid;
    return;
  }
  const Condition* invalid = status.Find(kInvalid);
  if (invalid == nullptr || invalid->reason != kRefusedByServer) return;
  ClearCondition(status, kInvalid, "Valid", "the API server accepts the spec now", situation.Stamp());
}

// "evaluator-0 failed and is not restarted: …"; empty: none has.
std::string DescribeFailedEvaluator(const Situation& situation, const Restarts& restarts) {
  for (const auto& [id, state] : restarts.states) {
    if (id.role != Role::kEvaluator || state != PodState::kFailed || restarts.counted.contains(id)) continue;
    const auto pod = situation.observed.pods.find(id);
    if (pod == situation.observed.pods.end()) continue;
    return fmt::format("{} failed and is not restarted, so nothing is evaluated: {}", Name(id),
                       DescribeEnd(situation.job, id, *pod->second, /*with_command=*/true));
  }
  return "";
}

Plan DescribeStall(TrainingJobStatus& status, const Situation& situation, const Restarts& restarts, bool children_missing) {
  Plan plan;
  if (!situation.observed.leftovers.empty()) {
    status.message = fmt::format("the job waits until {} of an earlier job of this name is gone", *situation.observed.leftovers.begin());
    plan.RequeueAt(situation.now + situation.options.retry_leftovers_after);
  }
  if (PodGroupLeaves(situation)) {
    status.message = fmt::format(
        "the job waits until the PodGroup {} that is being deleted is gone; kubectl get "
        "podgroups.scheduling.k8s.io {} -n {} -o yaml shows what keeps it",
        situation.job.meta.name, situation.job.meta.name, situation.job.meta.name_space);
  }
  const Stall stall = FindStall(situation, status, restarts, children_missing);
  if (stall.requeue_at) plan.RequeueAt(*stall.requeue_at);
  JudgeSpec(status, situation, stall);
  if (stall.reason.empty()) {
    ClearCondition(status, kStalled, "Resolved", "nothing holds up the job any more", situation.Stamp());
    return plan;
  }
  const Condition* before = situation.job.status.Find(kStalled);
  if (before == nullptr || !before->status || before->reason != stall.reason) plan.AddEvent(true, stall.reason, stall.message);
  SetCondition(status, kStalled, true, stall.reason, stall.message, situation.Stamp());
  status.message = stall.message;
  return plan;
}

}  // namespace

Plan Describe(TrainingJobStatus& status, const Situation& situation, const std::set<ReplicaId>& completed, const Restarts& restarts,
              bool children_missing) {
  Plan plan;
  const absl::Time stamp = situation.Stamp();
  status.replica_statuses = CountReplicas(situation.job, completed, restarts);
  const std::vector<ReplicaId> missing = ReplicasNotReady(situation.job, completed, restarts);
  const std::vector<ReplicaId> restarting = RestartingAmong(missing, restarts, status);
  std::string init_failure = InitFailureTeller(situation, status).Tell(missing);
  if (!init_failure.empty()) init_failure.insert(0, InitFailureTeller::kSeparator);
  const std::string evaluator = DescribeFailedEvaluator(situation, restarts);
  if (missing.empty()) {
    if (SetCondition(status, kRunning, true, "AllReplicasReady", "all replicas run and are ready", stamp)) {
      plan.AddEvent(false, "Running", "all replicas run and are ready");
    }
    status.message = evaluator.empty() ? "all replicas run and are ready" : "all other replicas run and are ready";
    if (!status.running_time) status.running_time = stamp;
  } else {
    status.message = DescribeQueueWait(situation, restarts);
    if (status.message.empty()) {
      status.message = "waits for " + NameSome(missing) + init_failure;
      const Observed& observed = situation.observed;
      for (const std::string& why :
           {DescribeGates(observed, missing), DescribeNodeWait(observed, missing), DescribeLostNode(observed, missing)}) {
        if (!why.empty()) status.message += "; " + why;
      }
      status.message = Head(status.message, kMaxMessage);
    }
    SetCondition(status, kRunning, false, restarting.empty() ? "ReplicasNotReady" : "ReplicasRestarting", status.message, stamp);
  }
  if (!evaluator.empty()) {
    status.message = Head(status.message + "; " + evaluator, kMaxMessage);
    const auto before = situation.job.status.replica_statuses.find(Role::kEvaluator);
    const bool known = before != situation.job.status.replica_statuses.end() && before->second.failed > 0;
    if (!known) plan.AddEvent(true, "EvaluatorFailed", evaluator);
  }
  for (const std::string& more : {DescribeUnhealthyDevices(situation.observed), DescribeUnqueued(situation),
                                  DescribeKeptQueue(situation.job.spec.run_policy.scheduling)}) {
    if (!more.empty()) status.message = Head(status.message + "; " + more, kMaxMessage);
  }
  if (restarting.empty()) {
    ClearCondition(
        status, kRestarting, "Restarted",
        missing.empty() ? "all restarted replicas are ready" : "the replicas that restarted are ready; the job " + status.message, stamp);
  } else {
    const std::string again = restarting.size() == 1 ? " starts again" : " start again";
    SetCondition(status, kRestarting, true, "ReplicasRestarting", NameSome(restarting) + again + init_failure, stamp);
  }
  status.phase = PhaseOf(status, missing.empty(), !restarting.empty());
  plan.Add(DescribeStall(status, situation, restarts, children_missing));
  return plan;
}

void DescribeEnd(TrainingJobStatus& status, JobPhase phase, std::string_view condition, std::string_view reason, const std::string& message,
                 absl::Time stamp) {
  status.phase = phase;
  status.completion_time = stamp;
  status.message = message;
  SetCondition(status, kRunning, false, reason, message, stamp);
  for (const std::string_view over : {kRestarting, kStalled, kSuspended, kInvalid}) ClearCondition(status, over, reason, "", stamp);
  SetCondition(status, condition, true, reason, message, stamp);
}

void CountAfterEnd(TrainingJobStatus& status, const TrainingJob& job, const Observed& observed) {
  for (auto& [role, counts] : status.replica_statuses) {
    const ReplicaSpec* replica = job.spec.Find(role);
    if (replica == nullptr) continue;
    std::set<int> completed = ParseIndexes(counts.completed, counts.desired);
    int failed = 0;
    counts.active = 0;
    counts.ready = 0;
    for (const auto& [id, pod] : observed.pods) {
      if (id.role != role) continue;
      const PodState state = StateOf(*pod, replica->restart_policy);
      if (state == PodState::kCompleted && id.index < counts.desired && !EndsByScaleDown(job, id, *pod)) completed.insert(id.index);
      if (state == PodState::kFailed) ++failed;
      if (state == PodState::kReady) ++counts.ready;
      if (state != PodState::kCompleted && pod->IsActive()) ++counts.active;
    }
    // Pods that have ended may be gone by now.
    counts.failed = std::max(counts.failed, failed);
    counts.succeeded = static_cast<int>(completed.size());
    counts.completed = FormatIndexes(completed);
  }
}

void DescribeDeletion(TrainingJobStatus& status, const TrainingJob& job, const Observed& observed, absl::Time stamp) {
  CountAfterEnd(status, job, observed);
  // The garbage collector's own, where the deletion asks for the children first.
  const std::string goes = job.meta.finalizers == "foregroundDeletion"
                               ? "it goes when its children are gone"
                               : fmt::format("its finalizers are {}; it goes when their owner has removed them", job.meta.finalizers);
  status.message = "the job is being deleted, and no replica starts again; " + goes;
  const bool all_ready = std::ranges::all_of(
      status.replica_statuses, [](const auto& role) { return role.second.ready + role.second.succeeded >= role.second.desired; });
  if (!all_ready) SetCondition(status, kRunning, false, "BeingDeleted", status.message, stamp);
}

void CountWhileStopping(TrainingJobStatus& status, const Situation& situation) {
  std::map<Role, ReplicaStatus> counts;
  for (const auto& [role, replica] : situation.job.spec.replicas) {
    counts[role].desired = replica.replicas;
    const auto before = situation.job.status.replica_statuses.find(role);
    if (before != situation.job.status.replica_statuses.end()) counts[role].restarts = before->second.restarts;
  }
  for (const auto& [id, pod] : situation.observed.pods) {
    if (pod->IsActive() && counts.contains(id.role)) ++counts[id.role].active;
  }
  status.replica_statuses = std::move(counts);
}

}  // namespace trainyard::control
