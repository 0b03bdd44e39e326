// ChildCaches: jobs and their children as the informers hold them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "operator/api/core.h"
#include "operator/api/training_job.h"
#include "operator/cache/informer.h"
#include "operator/controller/workqueue.h"
#include "operator/plan/observed.h"
#include "operator/trainingjob/held_pods.h"
#include "operator/trainingjob/left_progress.h"

namespace trainyard::control {

struct JobInformers {
  Informer<TrainingJob>& jobs;
  Informer<Pod>& pods;
  Informer<Service>& services;
  Informer<ConfigMap>& configs;
  Informer<Deployment>& deployments;
  Informer<Node>* nodes = nullptr;  // null: not allowed to see nodes; no pod is ever force-deleted
};

// Thread-safe but for Connect. The informers must outlive it.
class ChildCaches {
 public:
  explicit ChildCaches(JobInformers informers);

  // Puts the right job into `queue` for each change of a job, child or node. Before the informers
  // start.
  void Connect(WorkQueue& queue);

  std::shared_ptr<const TrainingJob> Job(const std::string& key) const { return informers_.jobs.lister().Get(key); }
  // The children of spec.serve, where they are the job's.
  std::shared_ptr<const Deployment> ServeDeploymentOf(const TrainingJob& job) const;
  std::shared_ptr<const Service> ServeServiceOf(const TrainingJob& job) const;
  std::shared_ptr<const ConfigMap> ConfigOf(const TrainingJob& job) const;
  // Null where it has none.
  std::shared_ptr<const Pod> AnyPodOf(const TrainingJob& job) const;
  // The part of Children that caches hold: the job's children, other objects with the name of a
  // child, and the nodes of its ending pods.
  Children Gather(const TrainingJob& job) const;

  // How far the job's chief came that has ended.
  std::optional<Progress> LeftProgressOf(const TrainingJob& job) const { return left_.Of(job); }
  void ForgetLeftProgress(const std::string& job_key) { left_.Forget(job_key); }

  // Calls `let_go` with each pod of the job that Kueue's finalizer keeps though it is being
  // deleted, also when the job is gone. A pod whose call fails is there again the next time. The
  // first error.
  absl::Status ForEachHeldPod(const std::string& job_key, const std::function<absl::Status(const Pod& pod)>& let_go);

  // Own writes, as the API server answered them. Kinds that no cache holds are left out.
  void ObserveJob(const nlohmann::json& object) { informers_.jobs.ObserveWrite(object); }
  void ObserveWrite(ChildKind kind, const nlohmann::json& object);
  void ObserveDelete(ChildKind kind, const std::string& key, const std::string& uid);

 private:
  struct Cache {
    std::function<void(const nlohmann::json& object)> observe_write;
    std::function<void(const std::string& key, const std::string& uid)> observe_delete;
  };

  // Of a job that avoids failed nodes.
  NodesSeen SeeNodes(const TrainingJob& job) const;
  bool NoteIfHeld(const ObjectMeta& pod);

  const JobInformers informers_;
  HeldPods held_;
  LeftProgress left_;
  const std::map<ChildKind, Cache> caches_;
};

}  // namespace trainyard::control
