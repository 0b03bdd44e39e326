#include "operator/trainingjob/left_progress.h"

#include <utility>

#include "operator/api/progress_json.h"
#include "operator/children/child_meta.h"

namespace trainyard::control {

void LeftProgress::Note(const std::string& job_key, const Pod& pod) {
  const ContainerStatus* const main = pod.Main();
  if (main == nullptr) return;
  if (main->running_since) {
    MutexLock lock(mutex_);
    const auto found = jobs_.find(job_key);
    if (found != jobs_.end() && found->second.pod == pod.meta.name) jobs_.erase(found);
    return;
  }
  if (!main->terminated) return;
  std::optional<Progress> progress = ParseProgress(main->terminated->message);
  if (!progress) return;
  progress->ForgetPace();
  MutexLock lock(mutex_);
  jobs_.insert_or_assign(job_key, Left{.job_uid = pod.meta.controller.uid, .pod = pod.meta.name, .progress = *std::move(progress)});
}

std::optional<Progress> LeftProgress::Of(const TrainingJob& job) const {
  MutexLock lock(mutex_);
  const auto found = jobs_.find(job.meta.Key());
  if (found == jobs_.end() || found->second.job_uid != job.meta.uid) return std::nullopt;
  if (found->second.pod != ChildName(job, ReporterOf(job))) return std::nullopt;
  return found->second.progress;
}

void LeftProgress::Forget(const std::string& job_key) {
  MutexLock lock(mutex_);
  jobs_.erase(job_key);
}

}  // namespace trainyard::control
