// Caches: what the operator knows of the cluster, as six informers that start and stop together.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "operator/kube/client.h"
#include "operator/program/options.h"
#include "operator/trainingjob/child_caches.h"

namespace trainyard::control {

// Thread-safe but for Start and Stop.
class Caches {
 public:
  using UnreadableReport = std::function<void(const Resource&, const Unreadable&)>;

  // `report` is told of each object that cannot be read, from the informers' threads.
  Caches(Client& client, Clock& clock, const Options& options, const UnreadableReport& report);

  void Start();
  void Stop();
  // The first lists are in.
  bool HasSynced() const;
  absl::Status Health() const;
  JobInformers informers() { return {jobs_, pods_, services_, configs_, deployments_, watch_nodes_ ? &nodes_ : nullptr}; }
  const Lister<TrainingJob>& JobLister() const { return jobs_.lister(); }
  const Lister<Pod>& PodLister() const { return pods_.lister(); }
  size_t Jobs() const { return jobs_.lister().Size(); }
  size_t Pods() const { return pods_.lister().Size(); }

 private:
  const bool watch_nodes_;
  Informer<TrainingJob> jobs_;
  Informer<Pod> pods_;
  Informer<Service> services_;
  Informer<ConfigMap> configs_;
  Informer<Deployment> deployments_;
  Informer<Node> nodes_;
};

}  // namespace trainyard::control
