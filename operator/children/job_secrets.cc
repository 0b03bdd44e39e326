#include "operator/children/job_secrets.h"

#include <nlohmann/json.hpp>

#include "operator/children/child_meta.h"

namespace trainyard::control {
namespace {

using nlohmann::json;

json Secret(const TrainingJob& job, const char* type, json data) {
  return {{"apiVersion", "v1"},
          {"kind", "Secret"},
          {"metadata", ChildMeta(job, SecretName(job), std::nullopt)},
          {"type", type},
          {"stringData", std::move(data)}};
}

}  // namespace

bool NeedsJobKey(const TrainingJob& job) { return job.spec.framework == Framework::kTrainyard; }
bool NeedsSshKeys(const TrainingJob& job) { return job.spec.framework == Framework::kMpi; }
bool NeedsSecret(const TrainingJob& job) { return NeedsSshKeys(job) || job.spec.network.key_in_secret; }

std::string CertificateName(const TrainingJob& job) { return job.meta.uid + ".trainyard.dev"; }

json BuildKeySecret(const TrainingJob& job, const JobKey& key) {
  json data = {{"key", key.key}};
  if (job.spec.network.tls) {
    data["ca.crt"] = key.authority_pem;
    data["tls.crt"] = key.certificate_pem;
    data["tls.key"] = key.private_key_pem;
  }
  return Secret(job, "Opaque", std::move(data));
}

json KeySecretItems(const TrainingJob& job) {
  const auto item = [](const char* key, const char* path) { return json{{"key", key}, {"path", path}}; };
  json items = json::array({item("key", "key")});
  if (job.spec.network.tls) {
    items.push_back(item("ca.crt", "tls/ca.crt"));
    items.push_back(item("tls.crt", "tls/tls.crt"));
    items.push_back(item("tls.key", "tls/tls.key"));
  }
  return items;
}

json BuildSshSecret(const TrainingJob& job, const SshKeys& keys) {
  return Secret(job, "kubernetes.io/ssh-auth", {{"ssh-privatekey", keys.private_key}, {"ssh-publickey", keys.public_key}});
}

}  // namespace trainyard::control
