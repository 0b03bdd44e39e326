#include "operator/trainingjob/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "operator/api/validation.h"
#include "operator/base/clock.h"
#include "operator/trainingjob/cleanup_policy.h"
#include "operator/trainingjob/conditions.h"
#include "operator/trainingjob/config_builder.h"
#include "operator/trainingjob/pod_builder.h"
#include "operator/trainingjob/pod_group_builder.h"
#include "operator/trainingjob/progress_json.h"
#include "operator/trainingjob/status.h"
#include "operator/trainingjob/success_policy.h"

namespace trainyard::control {
namespace {

constexpr std::string_view kManagedByUs = "trainyard.dev/operator";

// Decides about one job, top to bottom.
class Planner {
 public:
  Planner(const TrainingJob& job, const Observed& observed, absl::Time now, const PlanOptions& options)
      : job_(job),
        observed_(observed),
        options_(options),
        now_(now),
        stamp_(absl::FromUnixSeconds(absl::ToUnixSeconds(now))),
        status_(job.status) {}

  Plan Run() {
    status_.observed_generation = job_.meta.generation;
    if (!status_.Finished()) Decide();
    if (status_.Finished()) CleanUp();
    if (status_ != job_.status) {
      plan_.status_urgent = DiffersUrgently(job_.status, status_);
      plan_.status = std::move(status_);
    }
    return std::move(plan_);
  }

 private:
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
    PlanConfig();
    PlanPods();
    PlanServices();
    plan_.adopt = observed_.adopt;
    plan_.release = observed_.release;
    Describe();
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
    AddEvent(false, "Succeeded", message);
  }

  void Fail(std::string_view reason, const std::string& message) {
    End(JobPhase::kFailed, kFailed, reason, message);
    AddEvent(true, "Failed", fmt::format("{}: {}", reason, message));
  }

  void End(JobPhase phase, std::string_view condition, std::string_view reason, const std::string& message) {
    status_.phase = phase;
    status_.completion_time = stamp_;
    status_.message = message;
    status_.replica_statuses = CountReplicas(job_, completed_, restarts_);
    SetCondition(status_, kRunning, false, reason, message, stamp_);
    ClearCondition(status_, kRestarting, reason, "", stamp_);
    ClearCondition(status_, kStalled, reason, "", stamp_);
    ClearCondition(status_, kSuspended, reason, "", stamp_);
    ClearCondition(status_, kInvalid, reason, "", stamp_);
    SetCondition(status_, condition, true, reason, message, stamp_);
  }

  void MarkInvalid(const std::vector<FieldError>& errors) {
    const std::string message = control::Describe(errors);
    const Condition* before = job_.status.Find(kInvalid);
    if (before == nullptr || !before->status || before->message != message) AddEvent(true, "Invalid", message);
    SetCondition(status_, kInvalid, true, "InvalidSpec", message, stamp_);
    status_.phase = JobPhase::kInvalid;
    status_.message = message;
  }

  void Suspend() {
    if (SetCondition(status_, kSuspended, true, "SuspendRequested", "runPolicy.suspend is true: the pods are deleted", stamp_)) {
      AddEvent(false, "Suspended", "runPolicy.suspend is true: the pods are deleted");
    }
    SetCondition(status_, kRunning, false, "Suspended", "the job is suspended", stamp_);
    ClearCondition(status_, kRestarting, "Suspended", "", stamp_);
    ClearCondition(status_, kStalled, "Suspended", "", stamp_);
    status_.phase = JobPhase::kSuspended;
    status_.message = "suspended by runPolicy.suspend";
    status_.start_time.reset();
    StopAll();
  }

  // True when the job may start again; false while pods from before still end.
  bool Resume() {
    if (!observed_.pods.empty()) {
      SetCondition(status_, kSuspended, true, "Resuming", "waits until the pods from before are gone", stamp_);
      status_.message = "resumes when the pods from before are gone";
      StopAll();
      return false;
    }
    completed_.clear();
    SetCondition(status_, kSuspended, false, "Resumed", "runPolicy.suspend is false", stamp_);
    for (RestartRecord& record : status_.restart_records) record.backoff_step = 0;
    status_.phase = JobPhase::kPending;
    AddEvent(false, "Resumed", "the job starts again");
    return true;
  }

  void StopAll() {
    std::map<Role, ReplicaStatus> counts;
    for (const auto& [role, replica] : job_.spec.replicas) {
      counts[role].desired = replica.replicas;
      const auto before = job_.status.replica_statuses.find(role);
      if (before != job_.status.replica_statuses.end()) counts[role].restarts = before->second.restarts;
    }
    for (const auto& [id, pod] : observed_.pods) {
      if (pod->phase != PodPhase::kSucceeded && pod->phase != PodPhase::kFailed && counts.contains(id.role)) ++counts[id.role].active;
      DeletePod(id, *pod);
    }
    if (job_.spec.run_policy.scheduling.gang != Gang::kNone) DeleteUnwatched(ChildKind::kPodGroup, job_.meta.name);
    status_.replica_statuses = std::move(counts);
  }

  bool PastDeadline() {
    const std::optional<absl::Duration>& deadline = job_.spec.run_policy.active_deadline;
    if (!deadline || !status_.start_time) return false;
    const absl::Time end = *status_.start_time + *deadline;
    if (now_ >= end) return true;
    LookAgainAt(end);
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
    for (const std::string& note : restarts_.restart_notes) AddEvent(true, "Restarting", note);
    for (const std::string& note : restarts_.disruption_notes) AddEvent(true, "Disrupted", note);
  }

  void AcceptJob() {
    int pods = 0;
    for (const auto& [role, replica] : job_.spec.replicas) pods += replica.replicas;
    const bool per_replica = job_.spec.network.services == ServicesMode::kPerReplica;
    const std::string message = fmt::format("{} pods, {} and ConfigMap {}", pods,
                                            per_replica ? fmt::format("{} services", pods) : "one service", ConfigMapName(job_));
    if (status_.IsTrue(kCreated)) return;
    SetCondition(status_, kCreated, true, "Accepted", message, stamp_);
    AddEvent(false, "Created", "makes " + message);
    if (OutputIsEphemeral(job_)) {
      AddEvent(true, "EphemeralOutput",
               fmt::format("spec.storage.claimName is not set: output and checkpoints in {} end with each pod; name a "
                           "PersistentVolumeClaim to keep them",
                           job_.spec.storage.mount_path));
      if (job_.spec.Replicas(Role::kEvaluator) > 0 && job_.spec.Find(Role::kEvaluator)->pod_template.empty()) {
        AddEvent(
            true, "EvaluatorWithoutStorage",
            "the evaluator reads checkpoints from the folder that the chief writes them to: without spec.storage.claimName it finds none");
      }
    }
    for (const Role role : kRoles) {
      const std::vector<std::string> clashes = TemplateClashes(job_, role);
      if (clashes.empty()) continue;
      AddEvent(true, "TemplateWins",
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
    status_.hosts_hash = std::move(hash);
    ++status_.hosts_epoch;
    if (status_.hosts_epoch == 1) return;
    const auto before = job_.status.replica_statuses.find(Role::kWorker);
    AddEvent(false, "Scaled",
             fmt::format("workers {} -> {}; the host lists' epoch is {}",
                         before == job_.status.replica_statuses.end() ? 0 : before->second.desired, job_.spec.Replicas(Role::kWorker),
                         status_.hosts_epoch));
  }

  // ---- children ----

  void PlanConfig() {
    const std::string name = ConfigMapName(job_);
    if (observed_.config == nullptr) {
      Create(ChildKind::kConfigMap, name, std::nullopt);
    } else if (observed_.config->content_hash != ConfigMap::ContentHash(BuildConfigData(job_, status_.hosts_epoch))) {
      plan_.update_config = true;
    }
  }

  void PlanServices() {
    std::set<std::string> wanted;
    if (job_.spec.network.services == ServicesMode::kHeadless) {
      wanted.insert(HeadlessServiceName(job_));
      if (!observed_.services.contains(HeadlessServiceName(job_))) Create(ChildKind::kService, HeadlessServiceName(job_), std::nullopt);
    } else {
      ForEachReplica([&](const ReplicaId& id) {
        const std::string name = ChildName(job_, id);
        wanted.insert(name);
        if (!observed_.services.contains(name)) Create(ChildKind::kService, name, id);
      });
    }
    for (const auto& [name, service] : observed_.services) {
      if (!wanted.contains(name)) plan_.deletions.push_back({service});
    }
  }

  void PlanPods() {
    for (const auto& [id, pod] : observed_.pods) {
      const bool wanted = id.index < job_.spec.Replicas(id.role);
      if (!wanted || restarts_.counted.contains(id)) DeletePod(id, *pod);
    }
    std::vector<ReplicaId> missing;
    const bool servers_ready = ServersReady();
    ForEachReplica([&](const ReplicaId& id) {
      if (observed_.pods.contains(id) || completed_.contains(id)) return;
      if (!servers_ready && WaitsForServers(id)) return;
      if (const auto due = restarts_.not_before.find(id); due != restarts_.not_before.end() && due->second > now_)
        return LookAgainAt(due->second);
      missing.push_back(id);
    });
    PlanUnwatched(!missing.empty());
    if (missing.empty()) return;
    if (!status_.start_time) {
      status_.start_time = stamp_;
      PastDeadline();  // to be looked at in time
    }
    for (const ReplicaId& id : missing) Create(ChildKind::kPod, ChildName(job_, id), id);
  }

  void PlanUnwatched(bool pods_missing) {
    if (NeedsSshKeys(job_)) Ensure(ChildKind::kSecret, SshSecretName(job_), pods_missing);
    if (job_.spec.run_policy.scheduling.gang != Gang::kNone) Ensure(ChildKind::kPodGroup, job_.meta.name, pods_missing);
  }

  // One that was deleted by hand since it was seen is made again with the next pod.
  void Ensure(ChildKind kind, const std::string& name, bool pods_missing) {
    const auto known = observed_.unwatched.find(kind);
    const bool seen = known != observed_.unwatched.end();
    const bool outdated = seen && kind == ChildKind::kPodGroup && known->second.holder == Unwatched::Holder::kJob &&
                          known->second.min_member != MinMember(job_);
    if (pods_missing && !outdated) return Create(kind, name, std::nullopt);
    if (outdated || !seen || known->second.holder == Unwatched::Holder::kNobody) plan_.ensure.push_back({kind, name, "", "", std::nullopt});
  }

  void DeleteUnwatched(ChildKind kind, const std::string& name) {
    const auto known = observed_.unwatched.find(kind);
    if (known != observed_.unwatched.end() && known->second.holder != Unwatched::Holder::kJob) return;
    plan_.deletions.push_back({{kind, name, "", "", std::nullopt}});
  }

  bool WaitsForServers(const ReplicaId& id) const {
    if (job_.spec.run_policy.start_policy == StartPolicy::kAny || id.role == Role::kPs) return false;
    return !(id.role == Role::kChief && job_.spec.framework == Framework::kMxNet);  // servers wait for their scheduler
  }

  bool ServersReady() const {
    for (int i = 0; i < job_.spec.Replicas(Role::kPs); ++i) {
      const auto state = restarts_.states.find({Role::kPs, i});
      const bool ready =
          state != restarts_.states.end() && state->second == PodState::kReady && !restarts_.counted.contains({Role::kPs, i});
      if (!ready && !completed_.contains({Role::kPs, i})) return false;
    }
    return true;
  }

  void Create(ChildKind kind, const std::string& name, const std::optional<ReplicaId>& id) {
    if (observed_.taken.contains({kind, name}) || observed_.leftovers.contains(name)) return;
    const auto adoptable = [&](const ChildRef& child) { return child.kind == kind && child.name == name; };
    if (std::any_of(observed_.adopt.begin(), observed_.adopt.end(), adoptable)) return;
    plan_.creations.push_back({kind, name, "", "", id});
  }

  void DeletePod(const ReplicaId& id, const Pod& pod) {
    Deletion deletion{{ChildKind::kPod, pod.meta.name, pod.meta.uid, pod.meta.resource_version, id}};
    if (pod.meta.deletion_time) {
      if (!observed_.down_nodes.contains(pod.node)) return;
      const absl::Time force_at = *pod.meta.deletion_time + options_.force_delete_after;
      if (now_ < force_at) return LookAgainAt(force_at);
      deletion.force = true;
      AddEvent(true, "ForceDeleted",
               fmt::format("pod {} is Terminating on node {}, which is down: it is deleted without waiting", pod.meta.name, pod.node));
    }
    plan_.deletions.push_back(std::move(deletion));
  }

  void CleanUp() {
    for (const auto& [id, pod] : observed_.pods) {
      if (PodGoesAtEnd(job_, status_, id, *pod)) DeletePod(id, *pod);
    }
    if (KeysGoAtEnd(job_)) DeleteUnwatched(ChildKind::kSecret, SshSecretName(job_));
    if (PodGroupGoesAtEnd(job_, status_, observed_)) DeleteUnwatched(ChildKind::kPodGroup, job_.meta.name);
    if (job_.status.Finished()) CountAfterEnd();
    if (AllGoesAtEnd(job_)) {
      for (const auto& [name, service] : observed_.services) plan_.deletions.push_back({service});
      if (observed_.config != nullptr) {
        const ObjectMeta& meta = observed_.config->meta;
        plan_.deletions.push_back({{ChildKind::kConfigMap, meta.name, meta.uid, meta.resource_version, std::nullopt}});
      }
    }
    const std::optional<absl::Time> end = DeleteJobAt(job_, status_);
    if (!end) return;
    plan_.delete_job = now_ >= *end && job_.status.Finished();
    if (!plan_.delete_job) LookAgainAt(*end);
  }

  // How it ended stays; only what still runs is counted down.
  void CountAfterEnd() {
    for (auto& [role, counts] : status_.replica_statuses) {
      counts.active = 0;
      counts.ready = 0;
      for (const auto& [id, pod] : observed_.pods) {
        if (id.role != role || pod->phase == PodPhase::kSucceeded || pod->phase == PodPhase::kFailed) continue;
        ++counts.active;
        if (pod->ready && !pod->meta.deletion_time) ++counts.ready;
      }
    }
  }

  // ---- phase, conditions, message ----

  void Describe() {
    status_.replica_statuses = CountReplicas(job_, completed_, restarts_);
    const std::vector<ReplicaId> missing = ReplicasNotReady(job_, completed_, restarts_);
    const std::vector<ReplicaId> restarting = RestartingAmong(missing);
    if (missing.empty()) {
      if (SetCondition(status_, kRunning, true, "AllReplicasReady", "all replicas run and are ready", stamp_)) {
        AddEvent(false, "Running", "all replicas run and are ready");
      }
      status_.message = "all replicas run and are ready";
    } else {
      status_.message = "waits for " + NameSome(missing);
      SetCondition(status_, kRunning, false, restarting.empty() ? "ReplicasNotReady" : "ReplicasRestarting", status_.message, stamp_);
    }
    if (restarting.empty()) {
      ClearCondition(status_, kRestarting, "Restarted", "all restarted replicas are ready", stamp_);
    } else {
      SetCondition(status_, kRestarting, true, "ReplicasRestarting", NameSome(restarting), stamp_);
    }
    status_.phase = PhaseOf(missing.empty(), !restarting.empty());
    DescribeStall();
  }

  JobPhase PhaseOf(bool all_ready, bool restarting) const {
    if (all_ready) return JobPhase::kRunning;
    if (restarting) return JobPhase::kRestarting;
    // Scaling up, or a replica that is not ready for a while, does not make a running job a pending one.
    return status_.phase == JobPhase::kRunning || status_.phase == JobPhase::kRestarting ? JobPhase::kRunning : JobPhase::kPending;
  }

  std::vector<ReplicaId> RestartingAmong(const std::vector<ReplicaId>& missing) const {
    std::set<std::string> known;
    for (const RestartRecord& record : restarts_.records) known.insert(record.replica);
    std::vector<ReplicaId> restarting;
    std::copy_if(missing.begin(), missing.end(), std::back_inserter(restarting),
                 [&](const ReplicaId& id) { return known.contains(Name(id)); });
    return restarting;
  }

  void DescribeStall() {
    std::string reason;
    std::string message;
    if (!observed_.leftovers.empty()) {
      status_.message = fmt::format("waits until {} of an earlier job of this name is gone", *observed_.leftovers.begin());
      LookAgainAt(now_ + options_.retry_leftovers_after);
    }
    if (!observed_.taken.empty()) {
      reason = "NameTaken";
      for (const auto& [child, holder] : observed_.taken) {
        message += fmt::format("{}{} {} exists and is {}", message.empty() ? "" : "; ", KindName(child.first), child.second, holder);
      }
      message += "; delete or rename it, or give the job another name";
      LookAgainAt(now_ + options_.retry_taken_after);
    } else if (!FindObstacle(reason, message)) {
      FindNoProgress(reason, message);
    }
    if (reason.empty()) {
      ClearCondition(status_, kStalled, "Resolved", "nothing holds the job up any more", stamp_);
      return;
    }
    const Condition* before = job_.status.Find(kStalled);
    if (before == nullptr || !before->status || before->reason != reason) AddEvent(true, reason, message);
    SetCondition(status_, kStalled, true, reason, message, stamp_);
    status_.message = message;
  }

  // A pod that cannot start.
  bool FindObstacle(std::string& reason, std::string& message) {
    for (const auto& [id, state] : restarts_.states) {
      if (state != PodState::kWaiting) continue;
      const Pod& pod = *observed_.pods.at(id);
      const std::optional<Obstacle> obstacle = StartObstacle(pod);
      if (!obstacle) continue;
      const absl::Time stalled_at = pod.meta.creation_time + options_.stalled_start_after;
      if (now_ < stalled_at) {
        LookAgainAt(stalled_at);
        continue;
      }
      reason = obstacle->reason;
      message = fmt::format("{} cannot start: {}: {}", Name(id), obstacle->reason, obstacle->message);
      return true;
    }
    return false;
  }

  void FindNoProgress(std::string& reason, std::string& message) {
    if (!status_.IsTrue(kRunning) || !status_.progress) return;
    const Condition* running = status_.Find(kRunning);
    const absl::Time since = std::max(status_.progress->updated_time, running->last_transition);
    const absl::Time stalled_at = since + options_.stalled_progress_after;
    if (now_ < stalled_at) return LookAgainAt(stalled_at);
    reason = "NoProgress";
    message = fmt::format("{} has reported step {} since {}; look at its log", Name(ChiefOf(job_)), status_.progress->step,
                          FormatTimestamp(status_.progress->updated_time));
  }

  // ---- small tools ----

  template <typename Function>
  void ForEachReplica(const Function& function) const {
    for (const Role role : {Role::kPs, Role::kChief, Role::kWorker, Role::kEvaluator}) {
      for (int i = 0; i < job_.spec.Replicas(role); ++i) function(ReplicaId{role, i});
    }
  }

  void LookAgainAt(absl::Time time) {
    if (!plan_.look_again_at || time < *plan_.look_again_at) plan_.look_again_at = time;
  }

  void AddEvent(bool warning, std::string_view reason, std::string note) {
    plan_.events.push_back({warning, std::string(reason), std::move(note)});
  }

  const TrainingJob& job_;
  const Observed& observed_;
  const PlanOptions& options_;
  const absl::Time now_;
  const absl::Time stamp_;  // now as status holds it, in whole seconds
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

Plan MakePlan(const TrainingJob& job, const Observed& observed, absl::Time now, const PlanOptions& options) {
  if (job.meta.deletion_time || job.spec.managed_by != kManagedByUs) return {};
  return Planner(job, observed, now, options).Run();
}

}  // namespace trainyard::control
