// The key pair with which the ranks of an MPI job log in to each other.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "operator/api/training_job.h"

namespace trainyard::control {

struct SshKeys {
  std::string private_key;  // PEM (SEC 1, NIST P-521), as OpenSSH reads it
  std::string public_key;   // one line of authorized_keys (RFC 5656): "ecdsa-sha2-nistp521 …"
};

// New random keys. Internal when OpenSSL has no randomness.
absl::StatusOr<SshKeys> MakeSshKeys();

// Secret <job>-ssh of type kubernetes.io/ssh-auth.
nlohmann::json BuildSshSecret(const TrainingJob& job, const SshKeys& keys);

}  // namespace trainyard::control
