#include "operator/plan/accepted_spec.h"

#include <algorithm>
#include <utility>

namespace trainyard::control {
namespace {

// Pods made by guessing at these would be wrong ones.
bool IsShape(const FieldError& error) { return error.path == "spec.framework" || error.path.starts_with("spec.network"); }

}  // namespace

std::optional<TrainingJob> LastAccepted(const TrainingJob& job) {
  if (job.problems.empty() || !job.status.start_time || job.status.Finished()) return std::nullopt;
  if (std::any_of(job.problems.begin(), job.problems.end(), IsShape)) return std::nullopt;
  TrainingJob accepted = job;
  accepted.refused_edit = std::move(accepted.problems);
  accepted.problems.clear();
  for (auto& [role, replica] : accepted.spec.replicas) {
    const auto counts = job.status.replica_statuses.find(role);
    if (counts != job.status.replica_statuses.end()) replica.replicas = counts->second.desired;
  }
  return accepted;
}

}  // namespace trainyard::control
