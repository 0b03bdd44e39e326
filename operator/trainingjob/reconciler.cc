#include "operator/trainingjob/reconciler.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "operator/base/status_macros.h"
#include "operator/children/serve_builder.h"
#include "operator/kube/errors.h"
#include "operator/plan/acceptance.h"
#include "operator/plan/accepted_spec.h"
#include "operator/plan/conditions.h"
#include "operator/plan/kept_queue.h"
#include "operator/trainingjob/chief_target.h"
#include "operator/trainingjob/job_events.h"

namespace trainyard::control {
namespace {

// The time that a backlog of so many jobs may take. It is longer for some keys than for others, so
// that they do not all come back at once.
absl::Duration TimeFor(size_t jobs, const std::string& key) {
  constexpr absl::Duration kForOne = absl::Milliseconds(50);
  constexpr size_t kShares = 64;
  return jobs * kForOne * (1 + static_cast<double>(std::hash<std::string>()(key) % kShares) / kShares);
}

void RequeueAfter(ReconcileResult& result, absl::Duration wait) {
  wait = std::max(wait, absl::ZeroDuration());
  if (!result.requeue_after || wait < *result.requeue_after) result.requeue_after = wait;
}

}  // namespace

TrainingJobReconciler::TrainingJobReconciler(Client& client, Clock& clock, JobInformers informers, EventRecorder& events, FanOut& fan_out,
                                             ProgressPoller& progress, VersionPoller& versions, JobMetrics& metrics,
                                             TrainingJobReconcilerOptions options)
    : client_(client),
      clock_(clock),
      events_(events),
      progress_(progress),
      versions_(versions),
      metrics_(metrics),
      options_(options),
      caches_(informers),
      writer_(client, clock, caches_, events, fan_out, options.plan.retry_taken_after),
      unwritten_(options.status),
      job_clock_(clock) {}

void TrainingJobReconciler::Connect(WorkQueue& queue) {
  queue_ = &queue;
  caches_.Connect(queue);
}

absl::StatusOr<ReconcileResult> TrainingJobReconciler::Reconcile(const std::string& key) {
  TY_RETURN_IF_ERROR(caches_.ForEachHeldPod(key, [this](const Pod& pod) { return writer_.LetGo(pod); }));
  const std::shared_ptr<const TrainingJob> cached = caches_.Job(key);
  if (cached == nullptr) {
    progress_.Forget(key);
    caches_.ForgetLeftProgress(key);
    versions_.Forget(key);
    metrics_.Gone(key);
    unwritten_.Forget(key);
    writer_.Forget(key);
    hosts_.Forget(key);
    job_clock_.Forget(key);
    return ReconcileResult{};
  }
  const std::optional<TrainingJob> accepted = LastAccepted(*cached);
  const TrainingJob& job = accepted ? *accepted : *cached;
  const std::optional<TrainingJob> queued = InQueueOfItsPods(job, caches_.AnyPodOf(job).get());
  return ReconcileJob(key, queued ? *queued : job);
}

absl::StatusOr<ReconcileResult> TrainingJobReconciler::ReconcileJob(const std::string& key, const TrainingJob& job) {
  ReconcileResult result;
  TY_RETURN_IF_ERROR(writer_.LookForLostPods(job));
  const Plan plan = PlanFor(job, result);
  const bool children_first = plan.status_timing == StatusTiming::kAfterChildren;
  if (!children_first && IsDue(key, plan, result)) TY_RETURN_IF_ERROR(Tell(job, plan, result));
  if (plan.delete_job) {
    const auto deleted = client_.Delete(kTrainingJobs, job.meta.name_space, job.meta.name, {.uid = job.meta.uid});
    if (!deleted.ok() && !absl::IsNotFound(deleted.status()) && !IsConflict(deleted.status())) return deleted.status();
    return ReconcileResult{};
  }
  const absl::Status made = writer_.CarryOut(job, plan);
  const bool refused = writer_.IsRefused(job);
  if (children_first && (!made.ok() || refused || IsDue(key, plan, result))) {
    TY_RETURN_IF_ERROR(Tell(job, plan.creations.empty() ? plan : PlanFor(job, result), result));
  }
  TY_RETURN_IF_ERROR(made);
  // Own writes wake no handler: look once more at their effects.
  if (!plan.deletions.empty() || (refused && !plan.creations.empty())) {
    RequeueAfter(result, absl::ZeroDuration());
  } else if (!plan.creations.empty() || !plan.adopt.empty() || !plan.relabel.empty() || !plan.release.empty() || !plan.ensure.empty() ||
             plan.serving != ServingActions{}) {
    RequeueAfter(result, options_.status.settle);
  }
  return result;
}

Plan TrainingJobReconciler::PlanFor(const TrainingJob& job, ReconcileResult& result) {
  const std::string key = job.meta.Key();
  Children children = caches_.Gather(job);
  writer_.AddMemory(job, children);
  WatchProgress(key, job, children);
  WatchVersion(key, job, children);
  PollReport<Progress> report = progress_.Report(key);
  children.progress = report.latest ? std::move(report.latest) : caches_.LeftProgressOf(job);
  children.chief_problem = std::move(report.problem);
  children.hosts_seen = hosts_.Known(key);
  const absl::Time now = job_clock_.Now(key, NewestTime(job, children));
  Plan plan = MakePlan(job, Observe(job, std::move(children)), now, options_.plan);
  if (plan.hosts_seen) hosts_.Note(key, *std::move(plan.hosts_seen));
  if (plan.status && plan.status->IsTrue(kRunning) && !job.status.IsTrue(kRunning)) progress_.Hurry(key);
  if (plan.requeue_at) RequeueAfter(result, *plan.requeue_at - now);
  return plan;
}

void TrainingJobReconciler::WatchProgress(const std::string& key, const TrainingJob& job, const Children& children) {
  if (const auto target = ChiefTarget(job, children.pods)) return progress_.Watch(key, *target);
  progress_.Forget(key);
}

void TrainingJobReconciler::WatchVersion(const std::string& key, const TrainingJob& job, Children& children) {
  const auto deployment = job.spec.serve ? caches_.ServeDeploymentOf(job) : nullptr;
  const auto service = job.spec.serve ? caches_.ServeServiceOf(job) : nullptr;
  if (deployment == nullptr || service == nullptr || deployment->ready_replicas == 0) return versions_.Forget(key);
  versions_.Watch(key, {.ns = job.meta.name_space,
                        .kind = "services",
                        .name = service->meta.name,
                        .uid = deployment->meta.uid,
                        .ip = service->cluster_ip,
                        .port = kServePort,
                        .path = "v1/models/" + job.meta.name});
  PollReport<ServedVersion> report = versions_.Report(key);
  if (report.latest) children.serving.version = report.latest->version;
  children.serving.problem = std::move(report.problem);
}

bool TrainingJobReconciler::IsDue(const std::string& key, const Plan& plan, ReconcileResult& result) {
  const size_t others = queue_ == nullptr ? 0 : queue_->BacklogDepth();
  const absl::Duration delay = unwritten_.Delay(key, plan, others > 0, clock_.Monotonic());
  if (delay == absl::ZeroDuration()) return true;
  RequeueAfter(result, plan.status_timing == StatusTiming::kAfterChildren ? std::min(delay, TimeFor(others, key)) : delay);
  return false;
}

absl::Status TrainingJobReconciler::Tell(const TrainingJob& job, const Plan& plan, ReconcileResult& result) {
  const std::string key = job.meta.Key();
  if (plan.status) {
    auto written = client_.UpdateStatus(kTrainingJobs, StatusUpdateBody(job.meta, *plan.status));
    if (absl::IsNotFound(written.status())) {
      RequeueAfter(result, absl::Seconds(1));  // deleted meanwhile: the watch will say so
      return absl::OkStatus();
    }
    if (!written.ok()) return written.status();
    caches_.ObserveJob(*written);
    metrics_.Wrote(key, job, job.status, *plan.status);
  } else {
    metrics_.Seen(key, job, job.status);
  }
  unwritten_.Forget(key);
  if (plan.status && Accepts(job.status, *plan.status)) {
    for (const PlannedEvent& event : AcceptanceEvents(job)) RecordEvent(events_, job, event);
  }
  for (const PlannedEvent& event : plan.events) RecordEvent(events_, job, event);
  return absl::OkStatus();
}

}  // namespace trainyard::control
