// AppliedServings: the Deployments of spec.serve as they were written last, by job.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "operator/api/training_job.h"
#include "operator/base/clock.h"
#include "operator/base/mutex.h"
#include "operator/plan/observed.h"

namespace trainyard::control {

// Thread-safe. Remembered while the process lives. A restarted operator writes each once, which
// changes nothing of a Deployment that is as it should be.
class AppliedServings {
 public:
  explicit AppliedServings(Clock& clock) : clock_(clock) {}

  // `answer`: the API server's, to a write of what BuildServeDeployment makes of `job`.
  void Wrote(const TrainingJob& job, const nlohmann::json& answer);
  std::optional<AppliedServing> Known(const TrainingJob& job);
  void Forget(const std::string& job_key);

 private:
  struct OfJob {
    AppliedServing applied;  // but for its age
    absl::Duration at;       // on the monotonic clock
  };

  Clock& clock_;
  Mutex mutex_;
  std::unordered_map<std::string, OfJob> jobs_ ABSL_GUARDED_BY(mutex_);  // by job key
};

}  // namespace trainyard::control
