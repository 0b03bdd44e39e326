#include "operator/trainingjob/applied_servings.h"

#include <nlohmann/json.hpp>

#include "operator/api/core.h"
#include "operator/children/serve_builder.h"

namespace trainyard::control {

void AppliedServings::Wrote(const TrainingJob& job, const nlohmann::json& answer) {
  const absl::StatusOr<ObjectMeta> meta = MetaFromJson(answer);
  if (!meta.ok()) return;
  MutexLock lock(mutex_);
  jobs_[job.meta.Key()] = {{.uid = meta->uid, .generation = meta->generation, .hash = ServeHash(job)}, clock_.Monotonic()};
}

std::optional<AppliedServing> AppliedServings::Known(const TrainingJob& job) {
  MutexLock lock(mutex_);
  const auto it = jobs_.find(job.meta.Key());
  if (it == jobs_.end()) return std::nullopt;
  AppliedServing applied = it->second.applied;
  applied.age = clock_.Monotonic() - it->second.at;
  return applied;
}

void AppliedServings::Forget(const std::string& job_key) {
  MutexLock lock(mutex_);
  jobs_.erase(job_key);
}

}  // namespace trainyard::control
