#include "trainer/base/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "absl/strings/escaping.h"
#include "trainer/base/check.h"

namespace trainyard::engine {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) { TY_CHECK(EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1); }
Sha256::~Sha256() = default;

void Sha256::Update(std::span<const std::byte> bytes) { TY_CHECK(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1); }
void Sha256::Update(std::string_view text) { Update(std::as_bytes(std::span(text.data(), text.size()))); }

std::string Sha256::HexDigest() {
  std::array<char, 32> digest;
  unsigned int size = 0;
  TY_CHECK(EVP_DigestFinal_ex(context_->evp, reinterpret_cast<unsigned char*>(digest.data()), &size) == 1 && size == digest.size());
  return absl::BytesToHexString(absl::string_view(digest.data(), digest.size()));
}

}  // namespace trainyard::engine
