// Certificates made on the spot: of a job whose replicas talk by TLS, and of tests.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace trainyard::control {

struct CertifiedKey {
  std::string certificate_pem;
  std::string key_pem;  // PKCS #8, unencrypted
};

// EC P-256 keys, X.509 v3, random serial numbers. Valid from an hour ago, for clocks that differ,
// to `validity` from now. They end the process where OpenSSL has no randomness.
//
// A self-signed authority.
CertifiedKey MakeAuthority(const std::string& name, absl::Duration validity = absl::Hours(1));
// Signed by `authority`; `names` as OpenSSL's subjectAltName writes them: "DNS:api",
// "IP:127.0.0.1".
CertifiedKey IssueCertificate(const CertifiedKey& authority, const std::string& common_name, const std::vector<std::string>& names,
                              absl::Duration validity = absl::Hours(1));

}  // namespace trainyard::control
