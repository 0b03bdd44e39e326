#include "operator/program/connection.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <utility>

#include "absl/time/clock.h"
#include "operator/base/status_macros.h"

namespace trainyard::control {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

absl::StatusOr<Connection> FindCluster(const Options& options) {
  const std::string host = Variable("KUBERNETES_SERVICE_HOST");
  std::string path = options.kubeconfig;
  if (path.empty() && host.empty()) path = Variable("KUBECONFIG");
  if (path.empty() && host.empty()) path = Variable("HOME") + "/.kube/config";
  if (!path.empty()) {
    auto config = LoadKubeconfig(path, options.context);
    if (absl::IsNotFound(config.status()) && options.kubeconfig.empty()) {
      return absl::NotFoundError(
          fmt::format("{}; name a kubeconfig with --kubeconfig, or run in a pod", std::string(config.status().message())));
    }
    if (!config.ok()) return config.status();
    return Connection{*std::move(config), false};
  }
  TY_ASSIGN_OR_RETURN(KubeConfig config, InClusterConfig(host, Variable("KUBERNETES_SERVICE_PORT")));
  return Connection{std::move(config), true};
}

std::string ProcessIdentity() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const std::string pod = Variable("POD_NAME");
  return fmt::format("{}_{}", pod.empty() ? host.data() : pod, absl::ToUnixNanos(absl::Now()));
}

}  // namespace trainyard::control
