// Certificates made on the spot, for tests of TLS.
#pragma once

#include <string>
#include <vector>

namespace trainyard::control {

struct CertifiedKey {
  std::string certificate_pem;
  std::string key_pem;
};

// A self-signed authority, valid for an hour.
CertifiedKey MakeAuthority(const std::string& name);
// Signed by `authority`; `names` as OpenSSL's subjectAltName writes them: "DNS:api", "IP:127.0.0.1".
CertifiedKey IssueCertificate(const CertifiedKey& authority, const std::string& common_name, const std::vector<std::string>& names);

}  // namespace trainyard::control
