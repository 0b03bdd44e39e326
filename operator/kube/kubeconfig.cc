// LoadKubeconfig: the parts of ~/.kube/config (clientcmd v1) that a controller needs.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <array>
#include <filesystem>
#include <utility>

#include "absl/strings/escaping.h"
#include "operator/base/file.h"
#include "operator/base/log.h"
#include "operator/base/status_macros.h"
#include "operator/kube/config.h"
#include "operator/kube/pem.h"

namespace trainyard::control {
namespace {

// One named entry of `clusters`, `users` or `contexts`; `where` is "file: users[admin]" for
// messages.
struct Section {
  YAML::Node node;
  std::string where;
  std::filesystem::path folder;  // relative file names start here

  absl::Status Bad(std::string_view field, std::string_view problem) const {
    return absl::InvalidArgumentError(fmt::format("{}.{}: {}", where, field, problem));
  }

  bool Has(const char* field) const { return node[field].IsDefined() && !node[field].IsNull(); }

  absl::StatusOr<std::string> Text(const char* field) const {
    if (!Has(field)) return std::string();
    if (!node[field].IsScalar()) return Bad(field, "expected text");
    return node[field].Scalar();
  }

  absl::StatusOr<bool> Flag(const char* field) const {
    bool value = false;
    if (Has(field) && !YAML::convert<bool>::decode(node[field], value)) return Bad(field, "expected true or false");
    return value;
  }

  // The PEM text of "<name>-data" (base64) or, if that is missing, of the file that "<name>" names.
  absl::StatusOr<std::string> Pem(const std::string& name) const {
    const std::string data_field = name + "-data";
    TY_ASSIGN_OR_RETURN(const std::string encoded, Text(data_field.c_str()));
    if (!encoded.empty()) {
      std::string pem;
      if (!absl::Base64Unescape(encoded, &pem)) return Bad(data_field, "is not valid base64");
      return pem;
    }
    TY_ASSIGN_OR_RETURN(const std::string path, Text(name.c_str()));
    if (path.empty()) return std::string();
    auto pem = ReadFile(folder / path, kMaxConfigBytes);
    if (!pem.ok()) return Bad(name, std::string(pem.status().message()));
    return pem;
  }

  // The spelling of a PEM field, of two, that a message should name.
  std::string PemField(const std::string& name) const { return Has((name + "-data").c_str()) ? name + "-data" : name; }
};

absl::StatusOr<Section> Find(const YAML::Node& root, const std::string& path, const char* list, const char* inner,
                             const std::string& name) {
  const YAML::Node entries = root[list];
  const std::string where = fmt::format("{}: {}[{}]", path, list, name);
  if (!entries.IsDefined() || !entries.IsSequence())
    return absl::InvalidArgumentError(fmt::format("{}: {}: missing, or not a list", path, list));
  for (const YAML::Node& entry : entries) {
    if (!entry.IsMap() || !entry["name"].IsDefined() || !entry["name"].IsScalar() || entry["name"].Scalar() != name) continue;
    if (!entry[inner].IsDefined() || !entry[inner].IsMap())
      return absl::InvalidArgumentError(fmt::format("{}: no \"{}\" in it", where, inner));
    return Section{entry[inner], where, std::filesystem::path(path).parent_path()};
  }
  return absl::NotFoundError(fmt::format("{}: no entry has that name", where));
}

absl::Status ReadCluster(const Section& cluster, KubeConfig& config) {
  TY_ASSIGN_OR_RETURN(config.server, cluster.Text("server"));
  if (config.server.empty()) return cluster.Bad("server", "missing");
  while (config.server.ends_with('/')) config.server.pop_back();
  TY_ASSIGN_OR_RETURN(config.tls_server_name, cluster.Text("tls-server-name"));
  TY_ASSIGN_OR_RETURN(config.insecure_skip_tls_verify, cluster.Flag("insecure-skip-tls-verify"));
  if (cluster.Has("proxy-url")) return cluster.Bad("proxy-url", "proxies are not supported; connect directly");
  TY_ASSIGN_OR_RETURN(config.ca_pem, cluster.Pem("certificate-authority"));
  if (!config.ca_pem.empty()) {
    const std::string field = cluster.PemField("certificate-authority");
    if (absl::Status status = CheckCertificates(config.ca_pem); !status.ok()) return cluster.Bad(field, std::string(status.message()));
    if (config.insecure_skip_tls_verify)
      return cluster.Bad("insecure-skip-tls-verify", "cannot be true when a certificate-authority is given");
  }
  return absl::OkStatus();
}

absl::Status ReadUser(const Section& user, KubeConfig& config) {
  for (const char* field : {"exec", "auth-provider", "username", "password", "as"}) {
    if (user.Has(field)) return user.Bad(field, "is not supported; use a client certificate, token or tokenFile");
  }
  TY_ASSIGN_OR_RETURN(config.token, user.Text("token"));
  TY_ASSIGN_OR_RETURN(const std::string token_file, user.Text("tokenFile"));
  if (!token_file.empty()) {
    config.token_file = user.folder / token_file;
    if (const auto token = ReadFile(config.token_file, kMaxConfigBytes); !token.ok()) {
      return user.Bad("tokenFile", std::string(token.status().message()));
    }
  }
  TY_ASSIGN_OR_RETURN(config.client_certificate_pem, user.Pem("client-certificate"));
  TY_ASSIGN_OR_RETURN(config.client_key_pem, user.Pem("client-key"));
  if (config.client_certificate_pem.empty() && config.client_key_pem.empty()) return absl::OkStatus();
  if (config.client_key_pem.empty()) return user.Bad("client-key", "missing, but there is a client-certificate");
  if (config.client_certificate_pem.empty()) return user.Bad("client-certificate", "missing, but there is a client-key");
  if (absl::Status status = CheckCertificates(config.client_certificate_pem); !status.ok()) {
    return user.Bad(user.PemField("client-certificate"), std::string(status.message()));
  }
  if (absl::Status status = CheckKeyPair(config.client_certificate_pem, config.client_key_pem); !status.ok()) {
    return user.Bad(user.PemField("client-key"), std::string(status.message()));
  }
  return absl::OkStatus();
}

absl::StatusOr<KubeConfig> Read(const YAML::Node& root, const std::string& path, std::string_view wanted) {
  if (!root.IsMap())
    return absl::InvalidArgumentError(fmt::format("{}: is not a kubeconfig; expected a map with clusters, users and contexts", path));
  const Section file{root, path, {}};
  std::string context_name(wanted);
  if (context_name.empty()) {
    if (file.Has("current-context") && root["current-context"].IsScalar()) context_name = root["current-context"].Scalar();
    if (context_name.empty())
      return absl::InvalidArgumentError(fmt::format("{}: current-context: missing; set it or give --context", path));
  }
  TY_ASSIGN_OR_RETURN(const Section context, Find(root, path, "contexts", "context", context_name));
  TY_ASSIGN_OR_RETURN(const std::string cluster_name, context.Text("cluster"));
  TY_ASSIGN_OR_RETURN(const std::string user_name, context.Text("user"));
  TY_ASSIGN_OR_RETURN(const std::string ns, context.Text("namespace"));
  if (cluster_name.empty()) return context.Bad("cluster", "missing");
  KubeConfig config;
  if (!ns.empty()) config.ns = ns;
  TY_ASSIGN_OR_RETURN(const Section cluster, Find(root, path, "clusters", "cluster", cluster_name));
  TY_RETURN_IF_ERROR(ReadCluster(cluster, config));
  if (!user_name.empty()) {
    TY_ASSIGN_OR_RETURN(const Section user, Find(root, path, "users", "user", user_name));
    TY_RETURN_IF_ERROR(ReadUser(user, config));
  }
  if (config.insecure_skip_tls_verify) {
    LogWarning(
        "{}: clusters[{}].insecure-skip-tls-verify is true: ANYBODY between here and {} can read and change everything, the token included",
        path, cluster_name, config.server);
  }
  return config;
}

}  // namespace

absl::StatusOr<KubeConfig> LoadKubeconfig(const std::string& path, std::string_view context) {
  TY_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxConfigBytes));
  try {
    return Read(YAML::Load(text), path, context);
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(fmt::format("{}: is not valid YAML: {}", path, error.what()));
  }
}

}  // namespace trainyard::control
