#include "operator/children/labels.h"

#include <fmt/format.h>

namespace trainyard::control {

std::string Name(const ReplicaId& id) { return fmt::format("{}-{}", Name(id.role), id.index); }

std::string ChildName(const TrainingJob& job, const ReplicaId& id) { return fmt::format("{}-{}", job.meta.name, Name(id)); }

std::string ConfigMapName(const TrainingJob& job) { return job.meta.name + "-cluster"; }

std::string HeadlessServiceName(const TrainingJob& job) { return job.meta.name; }

std::string ServeName(const TrainingJob& job) { return job.meta.name + "-serve"; }

std::string SecretName(const TrainingJob& job) { return job.meta.name + (job.spec.framework == Framework::kMpi ? "-ssh" : "-key"); }

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

std::optional<ReplicaId> ReplicaNamed(std::string_view name) {
  const size_t dash = name.rfind('-');
  if (dash == std::string_view::npos) return std::nullopt;
  return ReplicaFromLabels(
      {.job_name = "", .job_uid = "", .role = std::string(name.substr(0, dash)), .index = std::string(name.substr(dash + 1))});
}

std::optional<ReplicaId> ReplicaFromName(const TrainingJob& job, std::string_view name) {
  const std::string prefix = job.meta.name + "-";
  if (!name.starts_with(prefix)) return std::nullopt;
  return ReplicaNamed(name.substr(prefix.size()));
}

LabelFit FitOf(const ChildLabels& labels, const TrainingJob& job, const std::optional<ReplicaId>& id) {
  const ChildLabels right{.job_name = job.meta.name,
                          .job_uid = job.meta.uid,
                          .role = id ? std::string(Name(id->role)) : "",
                          .index = id ? std::to_string(id->index) : ""};
  if (labels == right) return LabelFit::kRight;
  const auto fits = [](const std::string& found, const std::string& wanted) { return found.empty() || found == wanted; };
  const bool all = fits(labels.job_name, right.job_name) && fits(labels.job_uid, right.job_uid) && fits(labels.role, right.role) &&
                   fits(labels.index, right.index);
  return all ? LabelFit::kIncomplete : LabelFit::kOther;
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

ReplicaId ReporterOf(const TrainingJob& job) {
  return job.spec.framework == Framework::kMxNet ? ReplicaId{Role::kWorker, 0} : ChiefOf(job);
}

std::string NameSome(const std::vector<ReplicaId>& replicas) {
  constexpr size_t kShown = 3;
  std::string text;
  for (size_t i = 0; i < replicas.size() && i < kShown; ++i) text += (i == 0 ? "" : ", ") + Name(replicas[i]);
  if (replicas.size() > kShown) text += fmt::format(" and {} more", replicas.size() - kShown);
  return text;
}

}  // namespace trainyard::control
