#include "operator/plan/host_lists.h"

#include "operator/children/config_builder.h"

namespace trainyard::control {

HostLists::HostLists(const TrainingJob& job, const ConfigMap* config, const std::optional<HostListsSeen>& seen)
    : job_(job), config_(config), usable_(job.refused_edit.empty()), seen_{.job_uid = job.meta.uid, .generation = job.meta.generation} {
  if (usable_ && seen && seen->job_uid == seen_.job_uid && seen->generation == seen_.generation) seen_ = *seen;
}

std::string HostLists::Hash() {
  if (seen_.hash.empty()) seen_.hash = HostsHash(job_);
  return seen_.hash;
}

bool HostLists::AreHeld(int64_t epoch) {
  if (config_ == nullptr) return false;
  const std::string& version = config_->meta.resource_version;
  if (!version.empty() && seen_.config_version == version && seen_.config_epoch == epoch) return true;
  if (!HoldsHosts(*config_, job_, epoch)) return false;
  seen_.config_version = version;
  seen_.config_epoch = epoch;
  return true;
}

}  // namespace trainyard::control
