// The Secrets of a job. <job>-key holds the key and certificates by which the replicas of a
// Trainyard job know each other (docs/security.md). <job>-ssh holds the ssh keys of an MPI job.
// Pure: the content is drawn elsewhere.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "operator/api/training_job.h"

namespace trainyard::control {

struct JobKey {
  std::string key;  // 64 hexadecimal digits
  // Empty without network.tls. All replicas share one certificate.
  std::string authority_pem;
  std::string certificate_pem;
  std::string private_key_pem;
};

struct SshKeys {
  std::string private_key;  // PEM (SEC 1, NIST P-521), as OpenSSH reads it
  std::string public_key;   // one line of authorized_keys (RFC 5656): "ecdsa-sha2-nistp521 …"
};

// Replicas of other frameworks do not read it.
bool NeedsJobKey(const TrainingJob& job);
// Whether the job needs the secret with ssh keys.
bool NeedsSshKeys(const TrainingJob& job);
// Whether the job has a Secret at all: ssh keys, or its own key and certificates.
bool NeedsSecret(const TrainingJob& job);

// The name in the certificate: "<uid>.trainyard.dev".
std::string CertificateName(const TrainingJob& job);

// Secret <job>-key: `key`; with network.tls also ca.crt, tls.crt and tls.key.
nlohmann::json BuildKeySecret(const TrainingJob& job, const JobKey& key);

// Where the Secret's entries lie in the config folder: {"items": [{"key": "tls.crt", "path":
// "tls/tls.crt"}, …]}.
nlohmann::json KeySecretItems(const TrainingJob& job);

// Secret <job>-ssh of type kubernetes.io/ssh-auth.
nlohmann::json BuildSshSecret(const TrainingJob& job, const SshKeys& keys);

}  // namespace trainyard::control
