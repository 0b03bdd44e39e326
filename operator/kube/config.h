// The API server's address and the operator's credentials: from a pod's service account, or from a
// kubeconfig file.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace trainyard::control {

// No part of a configuration is longer.
inline constexpr size_t kMaxConfigBytes = size_t{4} << 20;

// Certificates and keys are PEM text, already read and checked to parse.
struct KubeConfig {
  std::string server{};  // "https://10.96.0.1:443", without a trailing slash
  std::string ca_pem{};  // empty: the system's authorities
  std::string client_certificate_pem{};
  std::string client_key_pem{};
  std::string token{};
  std::string token_file{};  // read again as it is rotated; wins over token
  std::string tls_server_name{};
  std::string ns = "default";             // of the context or the service account
  bool insecure_skip_tls_verify = false;  // the loader says so loudly in the log
};

// From KUBERNETES_SERVICE_HOST/_PORT (handed in) and the service account's folder. Errors name the
// missing variable or file.
absl::StatusOr<KubeConfig> InClusterConfig(std::string_view host, std::string_view port,
                                           const std::string& folder = "/var/run/secrets/kubernetes.io/serviceaccount");

// `context` empty: current-context. Errors name file and field and say what to do: "~/.kube/config:
// users[admin].client-key-data: …".
absl::StatusOr<KubeConfig> LoadKubeconfig(const std::string& path, std::string_view context = "");

}  // namespace trainyard::control
