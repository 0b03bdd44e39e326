// Certificates and keys as PEM text: into OpenSSL's objects, and checked before anything is
// connected.
#pragma once

#include <openssl/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trainyard::control {

struct FreeX509 {
  void operator()(X509* certificate) const;
};
struct FreeKey {
  void operator()(EVP_PKEY* key) const;
};
struct FreeBio {
  void operator()(BIO* bio) const;
};
using Certificate = std::unique_ptr<X509, FreeX509>;
using Bio = std::unique_ptr<BIO, FreeBio>;  // OpenSSL's reader and writer
using PrivateKey = std::unique_ptr<EVP_PKEY, FreeKey>;

// All certificates of the text, in order; InvalidArgument when there is none or one is broken.
absl::StatusOr<std::vector<Certificate>> ParseCertificates(std::string_view pem);
// An unencrypted private key; InvalidArgument otherwise.
absl::StatusOr<PrivateKey> ParsePrivateKey(std::string_view pem);

absl::Status CheckCertificates(std::string_view pem);
// InvalidArgument also when the key does not belong to the first certificate.
absl::Status CheckKeyPair(std::string_view certificate_pem, std::string_view key_pem);

}  // namespace trainyard::control
