// TrainingJobReconciler: reads the caches, asks MakePlan what to do, and does it. All I/O for children and status is here.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "operator/api/core.h"
#include "operator/api/training_job.h"
#include "operator/base/clock.h"
#include "operator/cache/informer.h"
#include "operator/controller/event_recorder.h"
#include "operator/controller/fan_out.h"
#include "operator/controller/reconciler.h"
#include "operator/controller/workqueue.h"
#include "operator/kube/client.h"
#include "operator/trainingjob/job_metrics.h"
#include "operator/trainingjob/plan.h"
#include "operator/trainingjob/progress_poller.h"
#include "operator/trainingjob/status_debounce.h"
#include "operator/trainingjob/unwatched_children.h"

namespace trainyard::control {

struct JobInformers {
  Informer<TrainingJob>& jobs;
  Informer<Pod>& pods;
  Informer<Service>& services;
  Informer<ConfigMap>& configs;
  Informer<Node>* nodes = nullptr;  // null: not allowed to see nodes; no pod is ever force-deleted
};

struct TrainingJobReconcilerOptions {
  PlanOptions plan;
  DebounceOptions debounce;
};

// Thread-safe. Every object may be shared with others; all must outlive it.
class TrainingJobReconciler : public Reconciler {
 public:
  TrainingJobReconciler(Client& client, Clock& clock, JobInformers informers, EventRecorder& events, FanOut& fan_out,
                        ProgressPoller& progress, JobMetrics& metrics, TrainingJobReconcilerOptions options = {});

  absl::StatusOr<ReconcileResult> Reconcile(const std::string& key) override;

  // Puts the right job into `queue` for each change of a job, child or node. Before the informers start.
  void Connect(WorkQueue& queue);

 private:
  using ChildKey = std::pair<ChildKind, std::string>;
  struct Taken {
    std::string holder;
    absl::Duration until;
  };

  // What is to happen to the job as the caches have it.
  Plan PlanFor(const TrainingJob& job, ReconcileResult& result);
  // Everything of a plan but its status and events. The first error of several, after all were tried.
  absl::Status CarryOut(const TrainingJob& job, const Plan& plan);
  // Status, and events once it is written.
  absl::Status Tell(const TrainingJob& job, const Plan& plan, ReconcileResult& result);
  // While other jobs wait for their children a first status is not worth a write of its own, for some time.
  bool MayWaitForOthers(const std::string& key, ReconcileResult& result);
  Children Gather(const TrainingJob& job);
  void WatchProgress(const std::string& key, const TrainingJob& job, const Children& children);
  // How long the write has to wait; zero: it is done, or there is nothing to write.
  absl::StatusOr<absl::Duration> WriteStatus(const TrainingJob& job, const Plan& plan);
  absl::Status Adopt(const TrainingJob& job, const ChildRef& child);
  absl::Status Release(const ChildRef& child, const TrainingJob& job);
  absl::Status Delete(const TrainingJob& job, const Deletion& deletion);
  absl::Status UpdateConfig(const TrainingJob& job);
  // Of a child that no cache holds.
  absl::Status Ensure(const TrainingJob& job, const ChildRef& child);
  absl::Status Create(const TrainingJob& job, const ChildRef& child);
  // A create met an object of that name.
  absl::Status Examine(const TrainingJob& job, const ChildRef& child);
  void ObserveWrite(ChildKind kind, const nlohmann::json& object);

  Client& client_;
  Clock& clock_;
  const JobInformers informers_;
  EventRecorder& events_;
  FanOut& fan_out_;
  ProgressPoller& progress_;
  JobMetrics& metrics_;
  UnwatchedChildren unwatched_;
  const TrainingJobReconcilerOptions options_;
  StatusDebounce debounce_;
  WorkQueue* queue_ = nullptr;
  Mutex mutex_;
  std::unordered_map<std::string, std::map<ChildKey, Taken>> taken_ ABSL_GUARDED_BY(mutex_);  // by job key
};

}  // namespace trainyard::control
