// Makes the key and the certificates of a job: all its randomness but ssh keys.
#pragma once

#include <string>

#include "operator/children/job_secrets.h"

namespace trainyard::control {

// 32 random bytes as 64 hexadecimal digits. Ends the process where OpenSSL has no randomness.
std::string MakeJobKey();

// `key` with, under network.tls, new certificates. All replicas share one certificate, which names
// the job's uid and not a host: `cluster.json` may change while the job runs. The authority's own
// key is dropped: nothing else can ever be signed by it.
JobKey CertifyJobKey(const TrainingJob& job, std::string key);

}  // namespace trainyard::control
