// The cluster that the operator works for, and the operator's name there. Both come from flags, the
// environment and the pod's service account.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "operator/kube/config.h"
#include "operator/program/options.h"

namespace trainyard::control {

struct Connection {
  KubeConfig config;
  bool in_cluster = false;
};

// --kubeconfig; else, in a pod, its service account; else $KUBECONFIG; else ~/.kube/config.
absl::StatusOr<Connection> FindCluster(const Options& options);

// "<pod or host>_<nanoseconds>": another one for each process.
std::string ProcessIdentity();

}  // namespace trainyard::control
