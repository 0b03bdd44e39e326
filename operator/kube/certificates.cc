#include "operator/kube/certificates.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

#include "operator/base/check.h"
#include "operator/kube/pem.h"

namespace trainyard::control {
namespace {

std::string PemText(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(size));
}

void AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  TY_CHECK(extension != nullptr);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

CertifiedKey Make(const std::string& common_name, const std::vector<std::string>& names, const CertifiedKey* authority,
                  absl::Duration validity) {
  const PrivateKey key(EVP_EC_gen("P-256"));
  const Certificate certificate(X509_new());
  uint64_t serial = 0;
  TY_CHECK(key != nullptr && certificate != nullptr && RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) == 1);
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial >> 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), absl::ToInt64Seconds(validity));
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1, 0);
  if (authority == nullptr) {
    X509_set_issuer_name(certificate.get(), subject);
    AddExtension(certificate.get(), certificate.get(), NID_basic_constraints, "critical,CA:TRUE");
    X509_sign(certificate.get(), key.get(), EVP_sha256());
  } else {
    const auto issuers = ParseCertificates(authority->certificate_pem);
    const auto issuer_key = ParsePrivateKey(authority->key_pem);
    TY_CHECK(issuers.ok() && issuer_key.ok());
    X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuers->front().get()));
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ",") + name;
    if (!list.empty()) AddExtension(certificate.get(), issuers->front().get(), NID_subject_alt_name, list);
    X509_sign(certificate.get(), issuer_key->get(), EVP_sha256());
  }
  const Bio certificate_text(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(certificate_text.get(), certificate.get());
  const Bio key_text(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  return {PemText(certificate_text.get()), PemText(key_text.get())};
}

}  // namespace

CertifiedKey MakeAuthority(const std::string& name, absl::Duration validity) { return Make(name, {}, nullptr, validity); }

CertifiedKey IssueCertificate(const CertifiedKey& authority, const std::string& common_name, const std::vector<std::string>& names,
                              absl::Duration validity) {
  return Make(common_name, names, &authority, validity);
}

}  // namespace trainyard::control
