#include "operator/kube/pem.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <utility>

#include "operator/base/status_macros.h"

namespace trainyard::control {
namespace {

Bio ReaderOf(std::string_view text) { return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

std::string LastError() {
  char text[256] = "";
  ERR_error_string_n(ERR_peek_last_error(), text, sizeof text);
  ERR_clear_error();
  return text;
}

// A password cannot be asked for: an encrypted key is an error, not a prompt on the terminal.
int NoPassword(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*user*/) { return -1; }

}  // namespace

void FreeX509::operator()(X509* certificate) const { X509_free(certificate); }
void FreeBio::operator()(BIO* bio) const { BIO_free(bio); }
void FreeKey::operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }

absl::StatusOr<std::vector<Certificate>> ParseCertificates(std::string_view pem) {
  const auto reader = ReaderOf(pem);
  std::vector<Certificate> certificates;
  ERR_clear_error();
  while (X509* certificate = PEM_read_bio_X509(reader.get(), nullptr, NoPassword, nullptr)) certificates.emplace_back(certificate);
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (at_end) ERR_clear_error();
  if (!at_end) return absl::InvalidArgumentError(fmt::format("holds a broken certificate ({}); expected PEM", LastError()));
  if (certificates.empty()) return absl::InvalidArgumentError("holds no certificate; expected PEM (-----BEGIN CERTIFICATE-----)");
  return certificates;
}

absl::StatusOr<PrivateKey> ParsePrivateKey(std::string_view pem) {
  const auto reader = ReaderOf(pem);
  ERR_clear_error();
  PrivateKey key(PEM_read_bio_PrivateKey(reader.get(), nullptr, NoPassword, nullptr));
  if (key == nullptr)
    return absl::InvalidArgumentError(fmt::format("holds no readable private key ({}); expected unencrypted PEM", LastError()));
  return key;
}

absl::Status CheckCertificates(std::string_view pem) { return ParseCertificates(pem).status(); }

absl::Status CheckKeyPair(std::string_view certificate_pem, std::string_view key_pem) {
  TY_ASSIGN_OR_RETURN(const std::vector<Certificate> certificates, ParseCertificates(certificate_pem));
  TY_ASSIGN_OR_RETURN(const PrivateKey key, ParsePrivateKey(key_pem));
  if (X509_check_private_key(certificates.front().get(), key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError("holds a key that does not belong to the certificate");
  }
  return absl::OkStatus();
}

}  // namespace trainyard::control
