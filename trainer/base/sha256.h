// SHA-256 (FIPS 180-4) by OpenSSL, as the lower-case hex that reports and manifests hold.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace trainyard::engine {

// Feed bytes in any number of pieces, then take the digest once.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::span<const std::byte> bytes);
  void Update(std::string_view text);
  // 64 hex digits. May be called once.
  std::string HexDigest();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace trainyard::engine
