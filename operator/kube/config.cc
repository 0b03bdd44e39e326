#include "operator/kube/config.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <utility>

#include "operator/base/file.h"
#include "operator/base/status_macros.h"
#include "operator/kube/pem.h"

namespace trainyard::control {
namespace {

absl::Status Missing(const std::string& what, const char* advice) { return absl::NotFoundError(fmt::format("{}: {}", what, advice)); }

}  // namespace

absl::StatusOr<KubeConfig> InClusterConfig(std::string_view host, std::string_view port, const std::string& folder) {
  if (host.empty() || port.empty()) {
    return Missing(host.empty() ? "KUBERNETES_SERVICE_HOST" : "KUBERNETES_SERVICE_PORT",
                   "is not set, so this process does not run in a pod; give a kubeconfig with --kubeconfig");
  }
  int number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size() || number < 1 || number > 65535) {
    return absl::InvalidArgumentError(fmt::format("KUBERNETES_SERVICE_PORT: \"{}\" is not a port", port));
  }
  KubeConfig config;
  config.server =
      host.find(':') == std::string_view::npos ? fmt::format("https://{}:{}", host, number) : fmt::format("https://[{}]:{}", host, number);
  config.token_file = folder + "/token";
  TY_ASSIGN_OR_RETURN(const std::string token, ReadFile(config.token_file, kMaxConfigBytes));
  if (token.empty()) return absl::InvalidArgumentError(fmt::format("{}: is empty; mount the service account's token", config.token_file));
  TY_ASSIGN_OR_RETURN(config.ca_pem, ReadFile(folder + "/ca.crt", kMaxConfigBytes));
  TY_RETURN_IF_ERROR(WithContext(CheckCertificates(config.ca_pem), folder + "/ca.crt"));
  if (const auto ns = ReadFile(folder + "/namespace", kMaxConfigBytes); ns.ok() && !ns->empty()) config.ns = *ns;
  return config;
}

}  // namespace trainyard::control
