#include "operator/trainingjob/chief_target.h"

#include <string>

#include "operator/children/child_meta.h"

namespace trainyard::control {

std::optional<ProgressTarget> ChiefTarget(const TrainingJob& job, const std::vector<std::shared_ptr<const Pod>>& pods) {
  const std::optional<int> port = job.status.Finished() ? std::nullopt : job.spec.ProgressPort();
  if (!port) return std::nullopt;
  const std::string reporter = ChildName(job, ReporterOf(job));
  for (const auto& pod : pods) {
    if (pod->meta.name != reporter || pod->meta.controller.uid != job.meta.uid) continue;
    if (pod->phase != PodPhase::kRunning || pod->ip.empty() || pod->meta.deletion_time) continue;
    return ProgressTarget{.ns = job.meta.name_space, .name = pod->meta.name, .uid = pod->meta.uid, .ip = pod->ip, .port = *port};
  }
  return std::nullopt;
}

}  // namespace trainyard::control
