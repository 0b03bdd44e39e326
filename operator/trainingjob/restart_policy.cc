#include "operator/trainingjob/restart_policy.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::control {
namespace {

constexpr absl::Duration kMaxDelay = absl::Minutes(5);
constexpr absl::Duration kResetAfter = absl::Minutes(10);
constexpr int kMaxStep = 16;

// Counts over all replicas of one job.
class Counter {
 public:
  Counter(const TrainingJob& job, const Observed& observed, const std::set<ReplicaId>& completed, absl::Time now)
      : job_(job), observed_(observed), completed_(completed), now_(absl::FromUnixMicros(absl::ToUnixMicros(now))) {
    for (const RestartRecord& record : job.status.restart_records) records_[record.replica] = record;
  }

  Restarts Run() {
    for (const auto& [role, replica] : job_.spec.replicas) {
      for (int i = 0; i < replica.replicas; ++i) Visit({role, i}, replica);
    }
    for (const auto& [name, record] : records_) {
      if (Counts(name)) result_.spent += record.restarts + record.pod_restarts;
    }
    const int limit = job_.spec.run_policy.backoff_limit;
    // Failures that are to be restarted next need a restart each.
    int needed = result_.spent;
    for (const PendingRestart& pending : pending_) {
      if (!Counts(Name(pending.id))) {
        if (!pending.by_kubelet) MakeAgain(pending);
      } else if (++needed <= limit) {
        if (!pending.by_kubelet) Grant(pending);  // the kubelet's shows in its restartCount later
      } else if (!result_.job_failure) {
        result_.job_failure = {"BackoffLimitExceeded",
                               fmt::format("{} failed ({}), and the job has used its {} restarts (runPolicy.backoffLimit)",
                                           Name(pending.id), DescribeEnd(*pending.pod), limit)};
      }
    }
    if (!result_.job_failure && result_.spent > limit) {
      result_.job_failure = {"BackoffLimitExceeded",
                             fmt::format("replicas restarted {} times, more than runPolicy.backoffLimit {} allows", result_.spent, limit)};
    }
    for (auto& [name, record] : records_) result_.records.push_back(std::move(record));
    return std::move(result_);
  }

 private:
  struct PendingRestart {
    ReplicaId id;
    const Pod* pod;
    bool by_kubelet;
  };

  // The training goes on without its evaluator: its failures spend no restart and fail no job.
  static bool Counts(std::string_view replica) { return !replica.starts_with(Name(Role::kEvaluator)); }

  void Visit(const ReplicaId& id, const ReplicaSpec& spec) {
    const auto pod = observed_.pods.find(id);
    if (pod != observed_.pods.end()) {
      VisitPod(id, spec, *pod->second);
    } else if (!completed_.contains(id)) {
      VisitAbsent(id);
    }
  }

  void VisitPod(const ReplicaId& id, const ReplicaSpec& spec, const Pod& pod) {
    RestartRecord* record = Find(id);
    if (record != nullptr && record->pod_uid != pod.meta.uid) {
      record->restarts += record->pod_restarts;
      record->pod_restarts = 0;
      record->pod_uid = pod.meta.uid;
      record->pod_counted = false;
    }
    const PodState state = completed_.contains(id) ? PodState::kCompleted : StateOf(pod, spec.restart_policy);
    result_.states[id] = state;
    const bool kubelet_restarts = spec.restart_policy == RestartPolicy::kAlways || spec.restart_policy == RestartPolicy::kOnFailure;
    if (const int restarts = KubeletRestarts(pod); kubelet_restarts && restarts > (record == nullptr ? 0 : record->pod_restarts)) {
      record = &Make(id, pod);
      record->pod_restarts = restarts;
      if (ShowsFailure(pod)) NoteFailure(id, pod);
      result_.restart_notes.push_back(fmt::format("{} ended ({}) and was restarted by the kubelet", Name(id), DescribeEnd(pod)));
    }
    if (record != nullptr && record->pod_counted) {
      result_.counted.insert(id);
      return;
    }
    if (state == PodState::kDisrupted) {
      CountEnd(Make(id, pod), &pod);
      ++result_.disruptions;
      result_.counted.insert(id);
      result_.disruption_notes.push_back(
          fmt::format("{} is made again: {}; this does not count against backoffLimit", Name(id), DescribeEnd(pod)));
    } else if (state == PodState::kFailed) {
      VisitFailed(id, spec, pod);
    } else if (AwaitsKubeletRestart(pod, spec.restart_policy)) {
      NoteFailure(id, pod);
      pending_.push_back({id, &pod, true});
    }
  }

  void VisitFailed(const ReplicaId& id, const ReplicaSpec& spec, const Pod& pod) {
    ExitAction action = ExitAction::kRestart;
    if (spec.restart_policy == RestartPolicy::kNever) action = ExitAction::kFail;
    const std::optional<int> exit_code = ExitCodeOf(pod);
    if (spec.restart_policy == RestartPolicy::kExitCode && exit_code) action = ActionFor(job_.spec.run_policy, *exit_code);
    if (action == ExitAction::kIgnore) {
      CountEnd(Make(id, pod), &pod);
      ++result_.disruptions;
      result_.counted.insert(id);
      result_.disruption_notes.push_back(
          fmt::format("{} is made again: {}, which runPolicy.exitCodes ignores", Name(id), DescribeEnd(pod)));
      return;
    }
    NoteFailure(id, pod);
    if (action == ExitAction::kRestart) {
      pending_.push_back({id, &pod, false});
    } else if (!result_.job_failure && Counts(Name(id))) {
      const bool never = spec.restart_policy == RestartPolicy::kNever;
      result_.job_failure = {never ? "ReplicaFailed" : "ExitCode",
                             fmt::format("{} failed ({}), and {}", Name(id), DescribeEnd(pod),
                                         never ? "its restartPolicy is Never" : "runPolicy.exitCodes says Fail")};
    }
  }

  // A replica that had a pod when the status was last complete, and has none now, was deleted from outside between two looks.
  void VisitAbsent(const ReplicaId& id) {
    RestartRecord* record = Find(id);
    if (record == nullptr || !record->pod_counted) {
      const auto it = job_.status.replica_statuses.find(id.role);
      if (it == job_.status.replica_statuses.end()) return;
      const ReplicaStatus& before = it->second;
      const bool all_existed = before.active + before.succeeded >= before.desired && id.index < before.desired;
      if (!all_existed || job_.status.IsTrue("Suspended")) return;
      record = &records_[Name(id)];
      record->replica = Name(id);
      CountEnd(*record, nullptr);
      ++result_.disruptions;
      result_.disruption_notes.push_back(
          fmt::format("{} is made again: its pod was deleted from outside; this does not count against backoffLimit", Name(id)));
    }
    result_.not_before[id] = record->last_end + RecreationDelay(record->backoff_step - 1);
  }

  void MakeAgain(const PendingRestart& pending) {
    RestartRecord& record = Make(pending.id, *pending.pod);
    CountEnd(record, pending.pod);
    ++record.restarts;
    result_.counted.insert(pending.id);
    if (Counts(Name(pending.id))) return;
    result_.restart_notes.push_back(fmt::format("{} failed ({}) and is made again; this does not count against backoffLimit",
                                                Name(pending.id), DescribeEnd(*pending.pod)));
  }

  void Grant(const PendingRestart& pending) {
    ++result_.spent;
    MakeAgain(pending);
    result_.restart_notes.push_back(fmt::format("{} failed ({}) and is made again: restart {} of at most {} (runPolicy.backoffLimit)",
                                                Name(pending.id), DescribeEnd(*pending.pod), result_.spent,
                                                job_.spec.run_policy.backoff_limit));
  }

  // The pod's end is counted; the next one waits longer unless this one ran for long.
  void CountEnd(RestartRecord& record, const Pod* pod) {
    absl::Time began = record.last_end;
    if (pod != nullptr) {
      const ContainerStatus* main = pod->Main();
      if (main != nullptr && main->terminated && main->terminated->started_at != absl::InfinitePast()) began = main->terminated->started_at;
      if (main != nullptr && main->running_since) began = *main->running_since;
    }
    if (began != absl::InfinitePast() && now_ - began >= kResetAfter) record.backoff_step = 0;
    record.backoff_step = std::min(record.backoff_step + 1, kMaxStep);
    record.last_end = now_;
    record.pod_counted = true;
  }

  void NoteFailure(const ReplicaId& id, const Pod& pod) {
    if (!job_.status.failure && !result_.first_failure && Counts(Name(id))) result_.first_failure = DescribeFailure(id, pod);
  }

  RestartRecord* Find(const ReplicaId& id) {
    const auto it = records_.find(Name(id));
    return it == records_.end() ? nullptr : &it->second;
  }

  RestartRecord& Make(const ReplicaId& id, const Pod& pod) {
    RestartRecord& record = records_[Name(id)];
    record.replica = Name(id);
    record.pod_uid = pod.meta.uid;
    return record;
  }

  const TrainingJob& job_;
  const Observed& observed_;
  const std::set<ReplicaId>& completed_;
  const absl::Time now_;
  std::map<std::string, RestartRecord> records_;
  std::vector<PendingRestart> pending_;
  Restarts result_;
};

}  // namespace

ExitAction ActionFor(const RunPolicy& policy, int exit_code) {
  for (const ExitCodeRule& rule : policy.exit_codes) {
    if (exit_code >= rule.from && exit_code <= rule.to) return rule.action;
  }
  return exit_code >= 128 ? ExitAction::kRestart : ExitAction::kFail;
}

absl::Duration RecreationDelay(int step) {
  if (step <= 0) return absl::ZeroDuration();
  return std::min(absl::Seconds(int64_t{1} << std::min(step - 1, kMaxStep)), kMaxDelay);
}

Restarts CountRestarts(const TrainingJob& job, const Observed& observed, const std::set<ReplicaId>& completed, absl::Time now) {
  return Counter(job, observed, completed, now).Run();
}

}  // namespace trainyard::control
