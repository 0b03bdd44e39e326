// The secret that all replicas of one job share: the file `key` beside the host lists
// (docs/security.md).
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace trainyard::engine {

inline constexpr size_t kJobKeyBytes = 32;

// 256 random bits. Never printed.
class JobKey {
 public:
  // 64 hexadecimal digits, with or without a line end. InvalidArgument says what `origin` (a file's
  // path) holds instead; never the key itself.
  static absl::StatusOr<JobKey> Parse(std::string_view text, std::string_view origin);
  // From the operating system's generator. Internal: it has no random bytes.
  static absl::StatusOr<JobKey> Random();

  // 64 hexadecimal digits and a line end, as the file holds them.
  std::string ToText() const;
  std::span<const std::byte, kJobKeyBytes> bytes() const { return bytes_; }

 private:
  std::array<std::byte, kJobKeyBytes> bytes_{};
};

}  // namespace trainyard::engine
