#include "operator/trainingjob/labels.h"

#include <fmt/format.h>

namespace trainyard::control {

std::string Name(const ReplicaId& id) { return fmt::format("{}-{}", Name(id.role), id.index); }

std::string ChildName(const TrainingJob& job, const ReplicaId& id) { return fmt::format("{}-{}", job.meta.name, Name(id)); }

std::string ConfigMapName(const TrainingJob& job) { return job.meta.name + "-cluster"; }

std::string HeadlessServiceName(const TrainingJob& job) { return job.meta.name; }

std::string SshSecretName(const TrainingJob& job) { return job.meta.name + "-ssh"; }

std::optional<ReplicaId> ReplicaFromLabels(const ChildLabels& labels) {
  const std::optional<Role> role = RoleFromName(labels.role);
  const std::string& text = labels.index;
  if (!role || text.empty() || text.size() > 6 || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  int index = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return std::nullopt;
    index = index * 10 + (digit - '0');
  }
  return ReplicaId{*role, index};
}

std::string Host(const TrainingJob& job, const ReplicaId& id) {
  std::string host = ChildName(job, id);
  if (job.spec.network.services == ServicesMode::kHeadless) host += "." + HeadlessServiceName(job);
  host += "." + job.meta.name_space + ".svc";
  if (!job.spec.network.cluster_domain.empty()) host += "." + job.spec.network.cluster_domain;
  return host;
}

std::string Address(const TrainingJob& job, const ReplicaId& id) { return fmt::format("{}:{}", Host(job, id), job.spec.network.port); }

ReplicaId ChiefOf(const TrainingJob& job) {
  return job.spec.Replicas(Role::kChief) > 0 ? ReplicaId{Role::kChief, 0} : ReplicaId{Role::kWorker, 0};
}

}  // namespace trainyard::control
