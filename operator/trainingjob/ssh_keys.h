// The key pair with which the ranks of an MPI job log in to each other.
#pragma once

#include "absl/status/statusor.h"
#include "operator/children/job_secrets.h"

namespace trainyard::control {

// New random keys. Internal when OpenSSL has no randomness.
absl::StatusOr<SshKeys> MakeSshKeys();

}  // namespace trainyard::control
