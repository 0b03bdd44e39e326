// TrainingJobReconciler: reads the caches, asks MakePlan what to do, has ChildWriter do it, and
// writes the status.
#pragma once

#include <string>

#include "operator/api/training_job.h"
#include "operator/base/clock.h"
#include "operator/controller/event_recorder.h"
#include "operator/controller/fan_out.h"
#include "operator/controller/reconciler.h"
#include "operator/controller/workqueue.h"
#include "operator/kube/client.h"
#include "operator/plan/plan.h"
#include "operator/progress/progress_poller.h"
#include "operator/trainingjob/child_caches.h"
#include "operator/trainingjob/child_writer.h"
#include "operator/trainingjob/job_clock.h"
#include "operator/trainingjob/job_metrics.h"
#include "operator/trainingjob/seen_host_lists.h"
#include "operator/trainingjob/unwritten_statuses.h"

namespace trainyard::control {

struct TrainingJobReconcilerOptions {
  PlanOptions plan;
  StatusWriteOptions status;
};

// Thread-safe. Every object may be shared with others; all must outlive it.
class TrainingJobReconciler : public Reconciler {
 public:
  TrainingJobReconciler(Client& client, Clock& clock, JobInformers informers, EventRecorder& events, FanOut& fan_out,
                        ProgressPoller& progress, VersionPoller& versions, JobMetrics& metrics, TrainingJobReconcilerOptions options = {});

  absl::StatusOr<ReconcileResult> Reconcile(const std::string& key) override;

  // Puts the right job into `queue` for each change of a job, child or node. Before the informers
  // start.
  void Connect(WorkQueue& queue);

 private:
  // `job`: as it is followed, which is not always what its spec says (accepted_spec.h).
  absl::StatusOr<ReconcileResult> ReconcileJob(const std::string& key, const TrainingJob& job);
  // The plan for the job as the caches have it.
  Plan PlanFor(const TrainingJob& job, ReconcileResult& result);
  void WatchProgress(const std::string& key, const TrainingJob& job, const Children& children);
  // Asks what serves the job's checkpoints, while a pod of it is ready.
  void WatchVersion(const std::string& key, const TrainingJob& job, Children& children);
  // Whether the plan's status is to be written now; else the job is looked at again when it is.
  bool IsDue(const std::string& key, const Plan& plan, ReconcileResult& result);
  // Writes the status, and then tells the events.
  absl::Status Tell(const TrainingJob& job, const Plan& plan, ReconcileResult& result);

  Client& client_;
  Clock& clock_;
  EventRecorder& events_;
  ProgressPoller& progress_;
  VersionPoller& versions_;
  JobMetrics& metrics_;
  const TrainingJobReconcilerOptions options_;
  ChildCaches caches_;
  ChildWriter writer_;
  UnwrittenStatuses unwritten_;
  SeenHostLists hosts_;
  JobClock job_clock_;
  WorkQueue* queue_ = nullptr;
};

}  // namespace trainyard::control
