#include "operator/plan/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "operator/api/progress_json.h"
#include "operator/api/text.h"
#include "operator/api/validation.h"
#include "operator/children/config_builder.h"
#include "operator/plan/acceptance.h"
#include "operator/plan/conditions.h"
#include "operator/plan/ending_pods.h"
#include "operator/plan/failed_nodes.h"
#include "operator/plan/plan_children.h"
#include "operator/plan/plan_deletions.h"
#include "operator/plan/plan_serving.h"
#include "operator/plan/plan_status.h"
#include "operator/plan/restart_together.h"
#include "operator/plan/second_start.h"
#include "operator/plan/status.h"
#include "operator/plan/success_policy.h"

namespace trainyard::control {
namespace {

constexpr std::string_view kManagedByUs = "trainyard.dev/operator";

// Decides about one job, top to bottom; plan_children, plan_deletions and plan_status have the
// parts.
class Planner {
 public:
  Planner(const TrainingJob& job, const Observed& observed, absl::Time now, const PlanOptions& options)
      : job_(job),
        observed_(observed),
        hosts_(job, observed.config.get(), observed.hosts_seen),
        situation_{job, observed, options, now, hosts_},
        now_(now),
        stamp_(situation_.Stamp()),
        status_(job.status) {}

  Plan Run() {
    status_.observed_generation = job_.meta.generation;
    if (!status_.Finished()) Decide();
    if (status_.Finished()) {
      if (job_.status.Finished()) {
        CountAfterEnd(status_, job_, observed_);
        if (status_.phase == JobPhase::kFailed) {
          TakeProgress();
          ForgetPace();
        }
      }
      plan_.Add(CleanUp(situation_, status_));
    }
    plan_.Add(PlanServing(situation_, status_));
    status_.message = Head(status_.message, kMaxMessage);
    if (status_ != job_.status) {
      plan_.status_timing = TimingOf(job_.status, status_, plan_.deletions.empty() && !plan_.update_config);
      plan_.status = std::move(status_);
    }
    plan_.hosts_seen = hosts_.seen();
    return std::move(plan_);
  }

  // Of a job that is being deleted: its status alone. The garbage collector has its children.
  Plan RunDeleted() {
    if (status_.Finished()) return {};
    TakeProgress();
    DescribeDeletion(status_, job_, observed_, stamp_);
    status_.message = Head(status_.message, kMaxMessage);
    if (status_ != job_.status) plan_.status = std::move(status_);
    return std::move(plan_);
  }

 private:
  void Decide() {
    const std::vector<FieldError>& errors = job_.problems;
    completed_ = CompletedReplicas(job_, observed_);
    TakeProgress();
    if (HasSucceeded(job_, completed_)) return Succeed();
    if (!errors.empty()) return MarkInvalid(errors);
    WarnOfUnknownFields();
    if (!job_.refused_edit.empty()) {
      RefuseEdit();
    } else if (const Condition* invalid = status_.Find(kInvalid); invalid != nullptr && invalid->reason != kRefusedByServer) {
      // A refusal by the API server holds until the server accepts the spec.
      ClearCondition(status_, kInvalid, "Valid", "the spec is valid now", stamp_);
    }
    if (job_.spec.run_policy.suspend) return Suspend();
    if (status_.IsTrue(kSuspended) && !Resume()) return;
    const SecondStart again = FindSecondStart(situation_, completed_);
    if (again.look_at) plan_.RequeueAt(*again.look_at);
    for (const ReplicaId& id : again.replicas) completed_.erase(id);
    restarts_ = CountRestarts(job_, observed_, completed_, again, now_);
    RestartTogether(situation_, restarts_);
    if (restarts_.all_start_again) {
      std::erase_if(completed_, [&](const ReplicaId& id) { return StartsWithAll(job_, id); });
      BeginGroup();
    }
    TakeRestarts();
    if (restarts_.job_failure) return Fail(restarts_.job_failure->reason, restarts_.job_failure->message);
    if (PastDeadline()) {
      return Fail("DeadlineExceeded", fmt::format("the job ran longer than runPolicy.activeDeadlineSeconds {}; raise it, or train less",
                                                  absl::ToInt64Seconds(*job_.spec.run_policy.active_deadline)));
    }
    status_.selector = fmt::format("{}={},{}={}", kJobUidLabel, job_.meta.uid, kRoleLabel, Name(Role::kWorker));
    AcceptJob();
    FixImage();
    NumberHosts();
    MakeChildren();
    plan_.adopt = observed_.adopt;
    plan_.relabel = observed_.relabel;
    plan_.release = observed_.release;
    plan_.Add(Describe(status_, situation_, completed_, restarts_, plan_.withheld || !plan_.creations.empty()));
  }

  // ---- what ends or holds a job ----

  void Succeed() {
    const ReplicaId chief = ChiefOf(job_);
    TakeFinalProgress(ReporterOf(job_));
    restarts_ = CountAtSuccess(job_, observed_, completed_, now_);
    TakeRestarts();
    std::string message =
        job_.spec.run_policy.success_policy == SuccessPolicy::kChief ? Name(chief) + " has completed" : "all workers have completed";
    if (status_.progress && !status_.progress->stopped_early.empty()) message += "; stopped early: " + status_.progress->stopped_early;
    End(JobPhase::kSucceeded, kSucceeded, "JobSucceeded", message);
    plan_.AddEvent(false, "Succeeded", message);
  }

  void ForgetPace() {
    if (status_.progress) status_.progress->ForgetPace();
  }

  void Fail(std::string_view reason, const std::string& message) {
    ForgetPace();
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

  // The job goes on as it was before the edit (accepted_spec.h).
  void RefuseEdit() {
    const std::string message = "the edit is not followed; the job goes on as before: " + control::Describe(job_.refused_edit);
    const Condition* before = job_.status.Find(kInvalid);
    if (before == nullptr || !before->status || before->message != Head(message, kMaxMessage)) plan_.AddEvent(true, kEditRefused, message);
    SetCondition(status_, kInvalid, true, kEditRefused, message, stamp_);
  }

  // Once for each version of the spec.
  void WarnOfUnknownFields() {
    if (job_.unknown.empty() || job_.status.observed_generation == job_.meta.generation) return;
    plan_.AddEvent(true, "UnknownField", "this version of the operator ignores: " + control::Describe(job_.unknown));
  }

  void Suspend() {
    if (SetCondition(status_, kSuspended, true, "SuspendRequested", "runPolicy.suspend is true: the pods are deleted", stamp_)) {
      plan_.AddEvent(false, "Suspended", "runPolicy.suspend is true: the pods are deleted");
    }
    SetCondition(status_, kRunning, false, "Suspended", "the job is suspended", stamp_);
    ClearCondition(status_, kRestarting, "Suspended", "", stamp_);
    ClearCondition(status_, kStalled, "Suspended", "", stamp_);
    status_.phase = JobPhase::kSuspended;
    status_.message = "the job is suspended by runPolicy.suspend";
    status_.start_time.reset();
    status_.running_time.reset();
    status_.image.clear();
    Stop();
  }

  // True when the job may start again; false while pods from before still end.
  bool Resume() {
    if (!observed_.pods.empty()) {
      SetCondition(status_, kSuspended, true, "Resuming", "the job waits until its old pods are gone", stamp_);
      status_.message = "the job resumes when its old pods are gone";
      Stop();
      return false;
    }
    completed_.clear();
    SetCondition(status_, kSuspended, false, "Resumed", "runPolicy.suspend is false", stamp_);
    for (RestartRecord& record : status_.restart_records) record.backoff_step = 0;
    status_.phase = JobPhase::kPending;
    plan_.AddEvent(false, "Resumed", "the job starts again");
    BeginGroup();
    return true;
  }

  // The pods that come now are another group for Kueue: all pods of the last one go.
  void BeginGroup() {
    if (!job_.spec.run_policy.scheduling.kueue_queue.empty()) ++status_.group_epoch;
  }

  void Stop() {
    CountWhileStopping(status_, situation_);
    ForgetPace();
    plan_.Add(StopAll(situation_));
    const Stall stays = FindPodThatStays(situation_);
    if (!stays.reason.empty()) status_.message += "; " + stays.message;
    if (stays.requeue_at) plan_.RequeueAt(*stays.requeue_at);
  }

  bool PastDeadline() {
    const std::optional<absl::Duration>& deadline = job_.spec.run_policy.active_deadline;
    if (!deadline || !status_.start_time) return false;
    const absl::Time end = *status_.start_time + *deadline;
    if (now_ >= end) return true;
    plan_.RequeueAt(end);
    return false;
  }

  // ---- what is remembered ----

  void TakeProgress() {
    if (!observed_.progress || (status_.progress && SameProgress(*status_.progress, *observed_.progress))) return;
    status_.progress = observed_.progress;
    status_.progress->updated_time = stamp_;
  }

  // The reporter's termination message (docs/contract.md) is newer than any of its answers.
  void TakeFinalProgress(const ReplicaId& reporter) {
    const auto pod = observed_.pods.find(reporter);
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
    status_.failed_nodes = FailedNodesNow(situation_, restarts_);
    Tell("Restarting", restarts_.restart_notes);
    Tell("Disrupted", restarts_.disruption_notes);
    plan_.Add(TellOfFailedNodes(situation_, status_.failed_nodes));
  }

  // An event for each note, or one with the count when a whole job's replicas end at once.
  void Tell(std::string_view reason, const std::vector<std::string>& notes) {
    constexpr size_t kMaxEvents = 8;
    if (notes.size() > kMaxEvents) return plan_.AddEvent(true, reason, fmt::format("{} replicas; {}", notes.size(), notes.front()));
    for (const std::string& note : notes) plan_.AddEvent(true, reason, note);
  }

  void AcceptJob() {
    if (status_.IsTrue(kCreated)) return;
    SetCondition(status_, kCreated, true, "Accepted", DescribeChildren(job_), stamp_);
  }

  // Pods may have been made before any status could be written, by an operator with another
  // default.
  void FixImage() {
    if (!job_.spec.image_is_default || !status_.image.empty()) return;
    status_.image = job_.spec.image;
    for (const auto& [id, pod] : observed_.pods) {
      const ReplicaSpec* replica = job_.spec.Find(id.role);
      if (replica != nullptr && replica->pod_template.empty() && !pod->main_image.empty()) status_.image = pod->main_image;
    }
  }

  void NumberHosts() {
    // The lists follow from the spec alone, and this generation's have been numbered.
    const bool was_started = job_.status.phase != JobPhase::kInvalid && job_.status.phase != JobPhase::kSuspended;
    if (was_started && !job_.status.hosts_hash.empty() && job_.status.observed_generation == job_.meta.generation) return;
    std::string hash = hosts_.Hash();
    if (hash == status_.hosts_hash) return;
    const bool first = status_.hosts_hash.empty();
    status_.hosts_hash = std::move(hash);
    ++status_.hosts_epoch;
    if (first) {
      // Pods may have seen lists that were made and changed before any status could be written.
      if (status_.hosts_epoch == 1 && observed_.config != nullptr && !hosts_.AreHeld(1)) status_.hosts_epoch = 2;
      return;
    }
    const auto before = job_.status.replica_statuses.find(Role::kWorker);
    plan_.AddEvent(false, "Scaled",
                   fmt::format("workers {} -> {}; the host lists' epoch is {}{}",
                               before == job_.status.replica_statuses.end() ? 0 : before->second.desired, job_.spec.Replicas(Role::kWorker),
                               status_.hosts_epoch, restarts_.new_number ? "; all replicas start again, for each keeps the number" : ""));
  }

  void MakeChildren() {
    plan_.Add(PlanChildren(situation_, completed_, restarts_, status_.hosts_epoch));
    // A job whose pods the API server refuses has not started: its deadline does not run, and its
    // spec may be put right.
    const Condition* stalled = job_.status.Find(kStalled);
    const bool refused = observed_.refusal || (stalled != nullptr && stalled->status && stalled->reason == kCannotCreate);
    const bool makes_pods = !refused && std::any_of(plan_.creations.begin(), plan_.creations.end(),
                                                    [](const ChildRef& child) { return child.kind == ChildKind::kPod; });
    if ((observed_.pods.empty() && !makes_pods) || status_.start_time) return;
    status_.start_time = stamp_;
    PastDeadline();  // to be looked at in time
  }

  const TrainingJob& job_;
  const Observed& observed_;
  HostLists hosts_;
  const Situation situation_;
  const absl::Time now_;
  const absl::Time stamp_;  // as status holds it
  TrainingJobStatus status_;
  std::set<ReplicaId> completed_;
  Restarts restarts_;
  Plan plan_;
};

}  // namespace

Plan MakePlan(const TrainingJob& job, const Observed& observed, absl::Time now, const PlanOptions& options) {
  if (job.spec.managed_by != kManagedByUs) return {};
  Planner planner(job, observed, now, options);
  return job.meta.deletion_time ? planner.RunDeleted() : planner.Run();
}

}  // namespace trainyard::control
