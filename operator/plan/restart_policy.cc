#include "operator/plan/restart_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "operator/api/restart_records.h"
#include "operator/api/text.h"
#include "operator/plan/cleanup_policy.h"
#include "operator/plan/failed_nodes.h"
#include "operator/plan/failure_rules.h"
#include "operator/plan/pod_end.h"
#include "operator/plan/scale_down.h"

namespace trainyard::control {
namespace {

constexpr absl::Duration kMaxDelay = absl::Minutes(5);
constexpr absl::Duration kResetAfter = absl::Minutes(10);
constexpr int kMaxStep = 16;

// With restartPolicy Always that is an end like any other.
bool EndedWell(const Pod& pod) { return pod.phase != PodPhase::kFailed && LastExitCode(pod) == 0 && !LastFailure(pod); }

std::string OnNode(const Pod& pod) { return pod.node.empty() ? "" : " on node " + pod.node; }

// When the pod's failure happened; the far future where it does not tell.
absl::Time EndOf(const Pod& pod) {
  const std::optional<ContainerEnd> ended = LastFailure(pod);
  return ended && ended->end->finished_at != absl::InfinitePast() ? ended->end->finished_at : absl::InfiniteFuture();
}

// Counts over all replicas of one job.
class Counter {
 public:
  Counter(const TrainingJob& job, const Observed& observed, const std::set<ReplicaId>& completed, const SecondStart& again, absl::Time now)
      : job_(job),
        observed_(observed),
        completed_(completed),
        again_(again),
        together_(job.spec.run_policy.restart_scope == RestartScope::kJob),
        now_(absl::FromUnixMicros(absl::ToUnixMicros(now))) {
    for (const RestartRecord& record : job.status.restart_records) records_[record.replica] = record;
  }

  Restarts RunAtSuccess() {
    for (const auto& [id, pod] : observed_.pods) {
      const ReplicaSpec* replica = job_.spec.Find(id.role);
      if (replica == nullptr || id.index >= replica->replicas) continue;
      result_.states[id] = completed_.contains(id) ? PodState::kCompleted : StateOf(*pod, replica->restart_policy);
      const RestartRecord* const record = VisitInPlace(id, *replica, *pod);
      if (record != nullptr && record->pod_counted) result_.counted.insert(id);
    }
    for (auto& [name, record] : records_) {
      if (Counts(name)) result_.spent += record.Spent();
      result_.records.push_back(std::move(record));
    }
    return std::move(result_);
  }

  Restarts Run() {
    for (const auto& [role, replica] : job_.spec.replicas) {
      for (int i = 0; i < replica.replicas; ++i) Visit({role, i}, replica);
    }
    for (const auto& [name, record] : records_) {
      if (Counts(name)) result_.spent += record.Spent();
    }
    const int limit = job_.spec.run_policy.backoff_limit;
    // Of replicas that end together the first one is to blame.
    if (together_)
      std::ranges::sort(pending_, {}, [](const PendingRestart& pending) { return std::pair(EndOf(*pending.pod), pending.id); });
    // Failures that are to be restarted next need a restart each.
    int needed = result_.spent;
    for (const PendingRestart& pending : pending_) {
      if (!Counts(Name(pending.id))) {
        if (!pending.by_kubelet) Recreate(pending);
      } else if (together_ && !result_.ended.empty()) {
        CountEnd(pending.id, Make(pending.id, *pending.pod), pending.pod);  // starts again with the others
      } else if (++needed <= limit) {
        if (!pending.by_kubelet) Grant(pending);  // the kubelet's shows in its restartCount later
      } else if (!result_.job_failure) {
        FailJob("BackoffLimitExceeded",
                Name(pending.id) + (EndedWell(*pending.pod) ? " ended" : " failed") + ", and the job has " +
                    (limit == 0 ? "no restarts" : "used its " + Counted(limit, "restart")),
                "raise runPolicy.backoffLimit", pending.id, *pending.pod);
      }
    }
    if (!result_.job_failure && result_.spent > limit) {
      if (last_restart_) {
        FailJob("BackoffLimitExceeded",
                fmt::format("replicas restarted {}, {} last, more than runPolicy.backoffLimit {} allows", Counted(result_.spent, "time"),
                            Name(*last_restart_), limit),
                "raise that limit", *last_restart_, *observed_.pods.at(*last_restart_));
      } else {
        result_.job_failure = {"BackoffLimitExceeded",
                               fmt::format("replicas restarted {}, more than runPolicy.backoffLimit {} allows; correct the job, or "
                                           "raise that limit",
                                           Counted(result_.spent, "time"), limit)};
      }
    }
    Forget();
    for (auto& [name, record] : records_) result_.records.push_back(std::move(record));
    return std::move(result_);
  }

 private:
  struct PendingRestart {
    ReplicaId id;
    const Pod* pod;
    bool by_kubelet;
    std::string rule = "";  // that says so; else the restart policy does
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

  // The record of a replica whose pod the kubelet may have restarted in place; null where it has
  // none.
  RestartRecord* VisitInPlace(const ReplicaId& id, const ReplicaSpec& spec, const Pod& pod) {
    RestartRecord* record = Find(id);
    if (record != nullptr && !NamesPod(*record, pod.meta.uid)) {
      record->restarts = record->Spent();
      record->pod_restarts = 0;
      record->pod_free_restarts = 0;
      record->pod_uid = pod.meta.uid;
      record->pod_counted = false;
    }
    const bool kubelet_restarts = spec.restart_policy == RestartPolicy::kAlways || spec.restart_policy == RestartPolicy::kOnFailure;
    if (const int restarts = KubeletRestarts(pod); kubelet_restarts && restarts > (record == nullptr ? 0 : record->pod_restarts)) {
      record = &Make(id, pod);
      VisitKubeletRestarts(id, pod, restarts - record->pod_restarts, *record);
    }
    return record;
  }

  void VisitPod(const ReplicaId& id, const ReplicaSpec& spec, const Pod& pod) {
    const PodState state = completed_.contains(id) ? PodState::kCompleted : StateOf(pod, spec.restart_policy);
    result_.states[id] = state;
    RestartRecord* const record = VisitInPlace(id, spec, pod);
    if (record != nullptr && record->pod_counted) {
      result_.counted.insert(id);
      return;
    }
    if (EndsByScaleDown(job_, id, pod)) {
      AwaitScaledDown(id, pod);
    } else if (again_.replicas.contains(id)) {
      StartAgain(id, Make(id, pod), &pod);
      result_.counted.insert(id);
    } else if (const std::optional<RuleMatch> match = MatchFailureRules(job_.spec.run_policy, pod, state)) {
      VisitMatched(id, pod, *match);
    } else if (state == PodState::kDisrupted) {
      CountEnd(id, Make(id, pod), &pod);
      ++result_.disruptions;
      result_.counted.insert(id);
      NoteNode(id, pod);
      result_.disruption_notes.push_back(fmt::format("{}{} {}: {}; this does not count against backoffLimit", Name(id), OnNode(pod),
                                                     Recreated(), DescribeEnd(job_, id, pod)));
    } else if (state == PodState::kFailed) {
      VisitFailed(id, spec, pod);
    } else if (AwaitsKubeletRestart(pod, spec.restart_policy) && LastExitCode(pod) != kPeerAbsentExitCode) {
      NoteFailure(id, pod);
      pending_.push_back({id, &pod, true});
    }
  }

  // The replica starts once the pod is gone, without a delay.
  void AwaitScaledDown(const ReplicaId& id, const Pod& pod) {
    RestartRecord& record = Make(id, pod);
    record.backoff_step = 0;
    record.last_end = now_;
    record.pod_counted = true;
    result_.counted.insert(id);
  }

  void VisitKubeletRestarts(const ReplicaId& id, const Pod& pod, int more, RestartRecord& record) {
    record.pod_restarts += more;
    std::string note = fmt::format("{} ended and was restarted by the kubelet", Name(id));
    if (LastExitCode(pod) == kPeerAbsentExitCode) {
      record.pod_free_restarts += more;
      result_.disruptions += more;
      result_.disruption_notes.push_back(fmt::format("{}; this does not count against backoffLimit: {}", note, DescribeEnd(job_, id, pod)));
      return;
    }
    if (LastFailure(pod)) NoteFailure(id, pod);
    if (Counts(Name(id))) last_restart_ = id;
    result_.restart_notes.push_back(fmt::format("{}: {}", note, DescribeEnd(job_, id, pod)));
  }

  // A rule of runPolicy.podFailurePolicy decides.
  void VisitMatched(const ReplicaId& id, const Pod& pod, const RuleMatch& match) {
    if (match.action == FailureAction::kIgnore) return Ignore(id, pod, match.why);
    NoteFailure(id, pod);
    if (match.action == FailureAction::kCount) {
      pending_.push_back({id, &pod, false, match.why});
    } else if (!result_.job_failure && Counts(Name(id))) {
      FailJob("PodFailurePolicy", fmt::format("{} failed, and {}", Name(id), match.why), "change that rule", id, pod);
    }
  }

  // The replica starts again and spends nothing; `rule`: what says so, may be empty.
  void Ignore(const ReplicaId& id, const Pod& pod, const std::string& rule) {
    CountEnd(id, Make(id, pod), &pod);
    ++result_.disruptions;
    result_.counted.insert(id);
    if (result_.states.at(id) == PodState::kDisrupted) NoteNode(id, pod);
    result_.disruption_notes.push_back(fmt::format("{}{} {}; this does not count against backoffLimit{}: {}", Name(id), OnNode(pod),
                                                   Recreated(), rule.empty() ? "" : "; " + rule, DescribeEnd(job_, id, pod)));
  }

  void VisitFailed(const ReplicaId& id, const ReplicaSpec& spec, const Pod& pod) {
    ExitAction action = ExitAction::kRestart;
    if (spec.restart_policy == RestartPolicy::kNever) action = ExitAction::kFail;
    const std::optional<int> exit_code = ExitCodeOf(pod);
    if (spec.restart_policy == RestartPolicy::kExitCode && exit_code) action = ActionFor(job_.spec.run_policy, *exit_code);
    if (action == ExitAction::kRestart && exit_code == kPeerAbsentExitCode && spec.restart_policy != RestartPolicy::kExitCode) {
      action = ExitAction::kIgnore;
    }
    if (action == ExitAction::kIgnore) return Ignore(id, pod, "");
    NoteFailure(id, pod);
    if (action == ExitAction::kRestart) {
      pending_.push_back({id, &pod, false});
    } else if (!result_.job_failure && Counts(Name(id))) {
      if (spec.restart_policy == RestartPolicy::kNever) {
        FailJob("ReplicaFailed", fmt::format("{} failed, and its restartPolicy is Never", Name(id)),
                fmt::format("change spec.{}.restartPolicy", Name(id.role)), id, pod);
      } else {
        FailJob("ExitCode", fmt::format("{} failed, and a restart does not cure that", Name(id)), "change runPolicy.exitCodes", id, pod);
      }
    }
  }

  // What happened, in brackets where to look and what to do then, and last the reason itself.
  void FailJob(const char* reason, const std::string& what, const std::string& instead, const ReplicaId& id, const Pod& pod) {
    const bool stays = FailedPodStays(job_, id, pod);
    result_.job_failure = {reason, fmt::format("{} ({}; then correct the job, or {}): {}", what, LookCommand(job_, pod, stays), instead,
                                               DescribeEnd(job_, id, pod, /*with_command=*/false))};
  }

  // Replicas with an index below `desired` whose end the status told while a new pod was awaited.
  int Awaited(Role role, int desired) const {
    const auto awaited = [&](const RestartRecord& record) {
      const std::optional<ReplicaId> id = ReplicaNamed(record.replica);
      return record.pod_counted && id && id->role == role && id->index < desired;
    };
    return static_cast<int>(std::ranges::count_if(job_.status.restart_records, awaited));
  }

  // A replica that had a pod when the status was last complete, and has none now, was deleted from
  // outside between two looks. Complete: each other replica had a pod, or its end was told.
  void VisitAbsent(const ReplicaId& id) {
    RestartRecord* record = Find(id);
    if (record == nullptr || !record->pod_counted) {
      const auto it = job_.status.replica_statuses.find(id.role);
      if (it == job_.status.replica_statuses.end()) return;
      const ReplicaStatus& before = it->second;
      const bool all_existed =
          before.active + before.succeeded + Awaited(id.role, before.desired) >= before.desired && id.index < before.desired;
      if (!all_existed || job_.status.IsTrue("Suspended")) return;
      record = &records_[Name(id)];
      record->replica = Name(id);
      if (again_.replicas.contains(id)) {
        StartAgain(id, *record, nullptr);
      } else {
        CountEnd(id, *record, nullptr);
        ++result_.disruptions;
        result_.disruption_notes.push_back(
            fmt::format("{} {}: its pod was deleted from outside; this does not count against backoffLimit", Name(id), Recreated()));
      }
    }
    result_.not_before[id] = record->last_end + RecreationDelay(record->backoff_step - 1);
  }

  // The replica ended with success. It spends nothing, and nothing has disrupted it.
  void StartAgain(const ReplicaId& id, RestartRecord& record, const Pod* pod) {
    CountEnd(id, record, pod);
    const bool one = again_.needed_by.size() == 1;
    result_.restart_notes.push_back(
        fmt::format("{} had ended and is recreated, because {} still {} it; this does not count against backoffLimit", Name(id),
                    NameSome({again_.needed_by.begin(), again_.needed_by.end()}), one ? "needs" : "need"));
  }

  std::string_view Recreated() const { return together_ ? "is recreated with all replicas" : "is recreated"; }

  void Recreate(const PendingRestart& pending) {
    RestartRecord& record = Make(pending.id, *pending.pod);
    CountEnd(pending.id, record, pending.pod);
    NoteNode(pending.id, *pending.pod);
    ++record.restarts;
    result_.counted.insert(pending.id);
    if (Counts(Name(pending.id))) return;
    result_.restart_notes.push_back(fmt::format("{} failed and is recreated; this does not count against backoffLimit: {}",
                                                Name(pending.id), DescribeEnd(job_, pending.id, *pending.pod)));
  }

  void Grant(const PendingRestart& pending) {
    ++result_.spent;
    Recreate(pending);
    result_.restart_notes.push_back(fmt::format("{} failed and {} (restart {} of {}{}): {}", Name(pending.id), Recreated(), result_.spent,
                                                job_.spec.run_policy.backoff_limit, pending.rule.empty() ? "" : "; " + pending.rule,
                                                DescribeEnd(job_, pending.id, *pending.pod)));
  }

  // The pod's end is counted; the next one waits longer unless this one ran for long.
  void CountEnd(const ReplicaId& id, RestartRecord& record, const Pod* pod) {
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
    result_.ended.insert(id);
  }

  void NoteFailure(const ReplicaId& id, const Pod& pod) {
    if (job_.status.failure || !Counts(Name(id))) return;
    const absl::Time end = EndOf(pod);
    if (result_.first_failure && end >= first_failure_at_) return;
    first_failure_at_ = end;
    result_.first_failure = DescribeFailure(id, pod);
  }

  // A disruption that the node did not make says nothing of it.
  void NoteNode(const ReplicaId& id, const Pod& pod) {
    if (pod.node.empty() || (result_.states.at(id) == PodState::kDisrupted && !EndedByItsNode(pod))) return;
    result_.failed_nodes.push_back({Name(id), pod.node});
  }

  // Of a replica that runs again neither the pod nor the moment is needed; after ten minutes of
  // running only what it has spent.
  void Forget() {
    for (auto& [id, pod] : observed_.pods) {
      RestartRecord* const record = Find(id);
      if (record == nullptr || record->pod_counted) continue;
      if (record->pod_restarts == 0) record->pod_uid.clear();
      if (records_.size() > kRecordsAlone) record->last_end = absl::FromUnixSeconds(absl::ToUnixSeconds(record->last_end) / 60 * 60);
      const ContainerStatus* const main = pod->Main();
      if (main == nullptr || !main->running_since || now_ - *main->running_since < kResetAfter || record->pod_restarts > 0) continue;
      record->backoff_step = 0;
      record->last_end = absl::InfinitePast();
      if (record->restarts == 0) records_.erase(Name(id));
    }
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
  const SecondStart& again_;
  const bool together_;  // all replicas start again with one
  const absl::Time now_;
  std::map<std::string, RestartRecord> records_;
  std::vector<PendingRestart> pending_;
  absl::Time first_failure_at_ = absl::InfiniteFuture();
  std::optional<ReplicaId> last_restart_;  // that the kubelet made since the last look
  Restarts result_;
};

}  // namespace

ExitAction ActionFor(const RunPolicy& policy, int exit_code) {
  for (const ExitCodeRule& rule : policy.exit_codes) {
    if (exit_code >= rule.from && exit_code <= rule.to) return rule.action;
  }
  if (exit_code == kPeerAbsentExitCode) return ExitAction::kIgnore;
  return exit_code >= 128 ? ExitAction::kRestart : ExitAction::kFail;
}

absl::Duration RecreationDelay(int step) {
  if (step <= 0) return absl::ZeroDuration();
  return std::min(absl::Seconds(int64_t{1} << std::min(step - 1, kMaxStep)), kMaxDelay);
}

Restarts CountRestarts(const TrainingJob& job, const Observed& observed, const std::set<ReplicaId>& completed, const SecondStart& again,
                       absl::Time now) {
  return Counter(job, observed, completed, again, now).Run();
}

Restarts CountAtSuccess(const TrainingJob& job, const Observed& observed, const std::set<ReplicaId>& completed, absl::Time now) {
  return Counter(job, observed, completed, {}, now).RunAtSuccess();
}

}  // namespace trainyard::control
