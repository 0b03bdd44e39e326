#include "operator/trainingjob/child_secrets.h"

#include "operator/base/status_macros.h"
#include "operator/trainingjob/job_key.h"
#include "operator/trainingjob/ssh_keys.h"

namespace trainyard::control {

absl::StatusOr<ChildSecrets> DrawSecrets(const TrainingJob& job, ChildKind kind, const std::string& known_key) {
  ChildSecrets secrets;
  const auto key = [&] { return known_key.empty() ? MakeJobKey() : known_key; };
  if (kind == ChildKind::kConfigMap && NeedsJobKey(job) && !job.spec.network.key_in_secret) secrets.key.key = key();
  if (kind != ChildKind::kSecret) return secrets;
  if (NeedsSshKeys(job)) {
    TY_ASSIGN_OR_RETURN(secrets.ssh, MakeSshKeys());
  } else {
    secrets.key = CertifyJobKey(job, key());
  }
  return secrets;
}

}  // namespace trainyard::control
