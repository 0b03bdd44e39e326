#include "operator/trainingjob/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <utility>

#include "operator/api/validation.h"
#include "operator/trainingjob/conditions.h"
#include "operator/trainingjob/config_builder.h"
#include "operator/trainingjob/plan_children.h"
#include "operator/trainingjob/plan_deletions.h"
#include "operator/trainingjob/plan_status.h"
#include "operator/trainingjob/pod_builder.h"
#include "operator/trainingjob/progress_json.h"
#include "operator/trainingjob/status.h"
#include "operator/trainingjob/success_policy.h"

namespace trainyard::control {
namespace {

constexpr std::string_view kManagedByUs = "trainyard.dev/operator";

// Decides about one job, top to bottom; plan_children, plan_deletions and plan_status have the parts.
class Planner {
 public:
  Planner(const TrainingJob& job, const Observed& observed, absl::Time now, const PlanOptions& options)
      : job_(job),
        observed_(observed),
        situation_{job, observed, options, now},
        now_(now),
        stamp_(situation_.Stamp()),
        status_(job.status) {}

  Plan Run() {
    status_.observed_generation = job_.meta.generation;
    if (!status_.Finished()) Decide();
    if (status_.Finished()) {
      if (job_.status.Finished()) CountAfterEnd(status_, observed_);
      plan_.Add(CleanUp(situation_, status_));
    }
    if (status_ != job_.status) {
      plan_.status_timing = Timing();
      plan_.status = std::move(status_);
    }
    return std::move(plan_);
  }

 private:
  StatusTiming Timing() const {
    const bool makes_only = plan_.deletions.empty() && !plan_.update_config;
    if (makes_only && SaysOnlyThatItStarts(job_.status, status_)) return StatusTiming::kAfterChildren;
    return DiffersUrgently(job_.status, status_) ? StatusTiming::kAtOnce : StatusTiming::kSettled;
  }

  void Decide() {
    const std::vector<FieldError>& errors = job_.problems;
    completed_ = CompletedReplicas(job_, observed_);
    TakeProgress();
    if (HasSucceeded(job_, completed_)) return Succeed();
    if (!errors.empty()) return MarkInvalid(errors);
    ClearCondition(status_, kInvalid, "Valid", "the spec makes sense now", stamp_);
    if (job_.spec.run_policy.suspend) return Suspend();
    if (status_.IsTrue(kSuspended) && !Resume()) return;
    restarts_ = CountRestarts(job_, observed_, completed_, now_);
    TakeRestarts();
    if (restarts_.job_failure) return Fail(restarts_.job_failure->reason, restarts_.job_failure->message);
    if (PastDeadline()) {
      return Fail("DeadlineExceeded", fmt::format("the job ran longer than runPolicy.activeDeadlineSeconds {}",
                                                  absl::ToInt64Seconds(*job_.spec.run_policy.active_deadline)));
    }
    status_.selector = fmt::format("{}={},{}={}", kJobUidLabel, job_.meta.uid, kRoleLabel, Name(Role::kWorker));
    AcceptJob();
    NumberHosts();
    MakeChildren();
    plan_.adopt = observed_.adopt;
    plan_.release = observed_.release;
    plan_.Add(Describe(status_, situation_, completed_, restarts_));
  }

  // ---- what ends or holds a job ----

  void Succeed() {
    const ReplicaId chief = ChiefOf(job_);
    TakeFinalProgress(chief);
    restarts_ = CountRestarts(job_, observed_, completed_, now_);
    std::string message =
        job_.spec.run_policy.success_policy == SuccessPolicy::kChief ? Name(chief) + " has completed" : "all workers have completed";
    if (status_.progress && !status_.progress->stopped_early.empty()) message += "; stopped early: " + status_.progress->stopped_early;
    End(JobPhase::kSucceeded, kSucceeded, "JobSucceeded", message);
    plan_.AddEvent(false, "Succeeded", message);
  }

  void Fail(std::string_view reason, const std::string& message) {
    End(JobPhase::kFailed, kFailed, reason, message);
    plan_.AddEvent(true, "Failed", fmt::format("{}: {}", reason, message));
  }

  void End(JobPhase phase, std::string_view condition, std::string_view reason, const std::string& message) {
    status_.replica_statuses = CountReplicas(job_, completed_, restarts_);
    DescribeEnd(status_, phase, condition, reason, message, stamp_);
  }

  void MarkInvalid(const std::vector<FieldError>& errors) {
    const std::string message = control::Describe(errors);
    const Condition* before = job_.status.Find(kInvalid);
    if (before == nullptr || !before->status || before->message != message) plan_.AddEvent(true, "Invalid", message);
    SetCondition(status_, kInvalid, true, "InvalidSpec", message, stamp_);
    status_.phase = JobPhase::kInvalid;
    status_.message = message;
  }

  void Suspend() {
    if (SetCondition(status_, kSuspended, true, "SuspendRequested", "runPolicy.suspend is true: the pods are deleted", stamp_)) {
      plan_.AddEvent(false, "Suspended", "runPolicy.suspend is true: the pods are deleted");
    }
    SetCondition(status_, kRunning, false, "Suspended", "the job is suspended", stamp_);
    ClearCondition(status_, kRestarting, "Suspended", "", stamp_);
    ClearCondition(status_, kStalled, "Suspended", "", stamp_);
    status_.phase = JobPhase::kSuspended;
    status_.message = "suspended by runPolicy.suspend";
    status_.start_time.reset();
    Stop();
  }

  // True when the job may start again; false while pods from before still end.
  bool Resume() {
    if (!observed_.pods.empty()) {
      SetCondition(status_, kSuspended, true, "Resuming", "waits until the pods from before are gone", stamp_);
      status_.message = "resumes when the pods from before are gone";
      Stop();
      return false;
    }
    completed_.clear();
    SetCondition(status_, kSuspended, false, "Resumed", "runPolicy.suspend is false", stamp_);
    for (RestartRecord& record : status_.restart_records) record.backoff_step = 0;
    status_.phase = JobPhase::kPending;
    plan_.AddEvent(false, "Resumed", "the job starts again");
    return true;
  }

  void Stop() {
    CountWhileStopping(status_, situation_);
    plan_.Add(StopAll(situation_));
  }

  bool PastDeadline() {
    const std::optional<absl::Duration>& deadline = job_.spec.run_policy.active_deadline;
    if (!deadline || !status_.start_time) return false;
    const absl::Time end = *status_.start_time + *deadline;
    if (now_ >= end) return true;
    plan_.LookAgainAt(end);
    return false;
  }

  // ---- what is remembered ----

  void TakeProgress() {
    if (!observed_.progress || (status_.progress && SameProgress(*status_.progress, *observed_.progress))) return;
    status_.progress = observed_.progress;
    status_.progress->updated_time = stamp_;
  }

  // The chief's last words (docs/contract.md) are newer than any answer of its.
  void TakeFinalProgress(const ReplicaId& chief) {
    const auto pod = observed_.pods.find(chief);
    if (pod == observed_.pods.end()) return;
    const ContainerStatus* main = pod->second->Main();
    if (main == nullptr || !main->terminated) return;
    std::optional<Progress> last = ParseProgress(main->terminated->message);
    if (!last || (status_.progress && SameProgress(*status_.progress, *last))) return;
    last->updated_time = stamp_;
    status_.progress = std::move(last);
  }

  void TakeRestarts() {
    status_.restart_records = restarts_.records;
    status_.restarts = restarts_.spent;
    status_.disruptions += restarts_.disruptions;
    if (restarts_.first_failure) status_.failure = restarts_.first_failure;
    for (const std::string& note : restarts_.restart_notes) plan_.AddEvent(true, "Restarting", note);
    for (const std::string& note : restarts_.disruption_notes) plan_.AddEvent(true, "Disrupted", note);
  }

  void AcceptJob() {
    int pods = 0;
    for (const auto& [role, replica] : job_.spec.replicas) pods += replica.replicas;
    const bool per_replica = job_.spec.network.services == ServicesMode::kPerReplica;
    const std::string message = fmt::format("{} pods, {} and ConfigMap {}", pods,
                                            per_replica ? fmt::format("{} services", pods) : "one service", ConfigMapName(job_));
    if (status_.IsTrue(kCreated)) return;
    SetCondition(status_, kCreated, true, "Accepted", message, stamp_);
    plan_.AddEvent(false, "Created", "makes " + message);
    if (OutputIsEphemeral(job_)) {
      plan_.AddEvent(true, "EphemeralOutput",
                     fmt::format("spec.storage.claimName is not set: output and checkpoints in {} end with each pod; name a "
                                 "PersistentVolumeClaim to keep them",
                                 job_.spec.storage.mount_path));
      if (job_.spec.Replicas(Role::kEvaluator) > 0 && job_.spec.Find(Role::kEvaluator)->pod_template.empty()) {
        plan_.AddEvent(
            true, "EvaluatorWithoutStorage",
            "the evaluator reads checkpoints from the folder that the chief writes them to: without spec.storage.claimName it finds none");
      }
    }
    for (const Role role : kRoles) {
      const std::vector<std::string> clashes = TemplateClashes(job_, role);
      if (clashes.empty()) continue;
      plan_.AddEvent(true, "TemplateWins",
                     fmt::format("spec.{}.template sets {} itself; its value is kept and the operator's is not injected", Name(role),
                                 fmt::join(clashes, ", ")));
    }
  }

  void NumberHosts() {
    // The lists follow from the spec alone, and this generation's have been numbered.
    const bool was_started = job_.status.phase != JobPhase::kInvalid && job_.status.phase != JobPhase::kSuspended;
    if (was_started && !job_.status.hosts_hash.empty() && job_.status.observed_generation == job_.meta.generation) return;
    std::string hash = HostsHash(job_);
    if (hash == status_.hosts_hash) return;
    const bool first = status_.hosts_hash.empty();
    status_.hosts_hash = std::move(hash);
    ++status_.hosts_epoch;
    if (first) {
      // Pods may have seen lists that were made and changed before any status could be written.
      if (status_.hosts_epoch == 1 && observed_.config != nullptr && !HoldsHosts(*observed_.config, job_, 1)) status_.hosts_epoch = 2;
      return;
    }
    const auto before = job_.status.replica_statuses.find(Role::kWorker);
    plan_.AddEvent(false, "Scaled",
                   fmt::format("workers {} -> {}; the host lists' epoch is {}",
                               before == job_.status.replica_statuses.end() ? 0 : before->second.desired, job_.spec.Replicas(Role::kWorker),
                               status_.hosts_epoch));
  }

  void MakeChildren() {
    ChildrenPlan children = PlanChildren(situation_, completed_, restarts_, status_.hosts_epoch);
    plan_.Add(std::move(children.plan));
    if ((!children.pods_missing && observed_.pods.empty()) || status_.start_time) return;
    status_.start_time = stamp_;
    PastDeadline();  // to be looked at in time
  }

  const TrainingJob& job_;
  const Observed& observed_;
  const Situation situation_;
  const absl::Time now_;
  const absl::Time stamp_;  // as status holds it
  TrainingJobStatus status_;
  std::set<ReplicaId> completed_;
  Restarts restarts_;
  Plan plan_;
};

}  // namespace

bool Plan::Empty() const {
  return !status && adopt.empty() && release.empty() && deletions.empty() && !update_config && ensure.empty() && creations.empty() &&
         !delete_job && events.empty();
}

void Plan::Add(Plan part) {
  const auto append = [](auto& list, auto& more) {
    list.insert(list.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  append(adopt, part.adopt);
  append(release, part.release);
  append(deletions, part.deletions);
  append(ensure, part.ensure);
  append(creations, part.creations);
  append(events, part.events);
  update_config |= part.update_config;
  delete_job |= part.delete_job;
  if (part.look_again_at) LookAgainAt(*part.look_again_at);
}

void Plan::AddEvent(bool warning, std::string_view reason, std::string note) {
  events.push_back({warning, std::string(reason), std::move(note)});
}

void Plan::LookAgainAt(absl::Time time) {
  if (!look_again_at || time < *look_again_at) look_again_at = time;
}

Plan MakePlan(const TrainingJob& job, const Observed& observed, absl::Time now, const PlanOptions& options) {
  if (job.meta.deletion_time || job.spec.managed_by != kManagedByUs) return {};
  return Planner(job, observed, now, options).Run();
}

}  // namespace trainyard::control
