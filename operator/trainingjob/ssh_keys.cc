#include "operator/trainingjob/ssh_keys.h"

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <array>
#include <memory>

namespace trainyard::control {
namespace {

// RFC 4251: a string is its length in four bytes, big end first, and its bytes.
void AppendString(std::string& blob, std::string_view text) {
  for (int shift = 24; shift >= 0; shift -= 8) blob += static_cast<char>((text.size() >> shift) & 0xFFU);
  blob += text;
}

std::string Base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  text.resize(length);
  return text;
}

}  // namespace

absl::StatusOr<SshKeys> MakeSshKeys() {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-521"), EVP_PKEY_free);
  const std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), BIO_free);
  std::array<unsigned char, 256> point;
  size_t point_size = 0;
  if (key == nullptr || out == nullptr ||
      PEM_write_bio_PrivateKey_traditional(out.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) != 1 ||
      EVP_PKEY_get_octet_string_param(key.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(), point.size(), &point_size) != 1) {
    return absl::InternalError("OpenSSL made no ssh key pair for an MPI job; expected a P-521 key; is there a source of randomness?");
  }
  char* pem = nullptr;
  const long pem_size = BIO_get_mem_data(out.get(), &pem);
  std::string blob;
  AppendString(blob, "ecdsa-sha2-nistp521");
  AppendString(blob, "nistp521");
  AppendString(blob, std::string_view(reinterpret_cast<const char*>(point.data()), point_size));
  return SshKeys{std::string(pem, pem_size), "ecdsa-sha2-nistp521 " + Base64(blob) + "\n"};
}

}  // namespace trainyard::control
