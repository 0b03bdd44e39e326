// Names and labels of a job's children. Every name is a function of the job and the replica, so
// that a create can be repeated safely.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/api/training_job.h"

namespace trainyard::control {

struct ReplicaId {
  Role role = Role::kWorker;
  int index = 0;
  friend auto operator<=>(const ReplicaId&, const ReplicaId&) = default;
};

// "worker-1", and back; nothing of another text.
std::string Name(const ReplicaId& id);
std::optional<ReplicaId> ReplicaNamed(std::string_view name);
// "ps-0, worker-1, worker-2 and 3 more"
std::string NameSome(const std::vector<ReplicaId>& replicas);
// "mnist-worker-1": the name of the replica's pod and of its service.
std::string ChildName(const TrainingJob& job, const ReplicaId& id);
std::string ConfigMapName(const TrainingJob& job);        // "mnist-cluster"
std::string HeadlessServiceName(const TrainingJob& job);  // "mnist"
std::string ServeName(const TrainingJob& job);            // "mnist-serve": the Deployment and the Service of spec.serve
std::string SecretName(const TrainingJob& job);           // "mnist-ssh" of an MPI job, else "mnist-key"

// The replica that the labels name; nothing when role or index are missing or malformed ("01",
// "-1", "worker").
std::optional<ReplicaId> ReplicaFromLabels(const ChildLabels& labels);

// The same by the name of a pod or service, "mnist-worker-1"; nothing for any other name.
std::optional<ReplicaId> ReplicaFromName(const TrainingJob& job, std::string_view name);

// A child's labels compared with those that it should have. `id` of a pod or a replica's service.
enum class LabelFit {
  kRight,
  kIncomplete,  // some are missing, none says anything else
  kOther,
};
LabelFit FitOf(const ChildLabels& labels, const TrainingJob& job, const std::optional<ReplicaId>& id);

// "worker-0.ns.svc" style host of a replica, without port.
std::string Host(const TrainingJob& job, const ReplicaId& id);
std::string Address(const TrainingJob& job, const ReplicaId& id);

// The replica whose progress and exit decide: the chief, or worker 0.
ReplicaId ChiefOf(const TrainingJob& job);

// The replica that answers for the job's progress: the chief. MXNet's chief schedules and trains
// nothing, so worker 0 answers there.
ReplicaId ReporterOf(const TrainingJob& job);

}  // namespace trainyard::control
