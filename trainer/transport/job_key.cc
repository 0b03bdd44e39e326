#include "trainer/transport/job_key.h"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cctype>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace trainyard::engine {

absl::StatusOr<JobKey> JobKey::Parse(std::string_view text, std::string_view origin) {
  const std::string digits(absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size())));
  const bool hexadecimal = std::ranges::all_of(digits, [](unsigned char digit) { return std::isxdigit(digit) != 0; });
  if (digits.size() != 2 * kJobKeyBytes || !hexadecimal) {
    return absl::InvalidArgumentError(fmt::format("job key '{}': found {} characters{}, expected {} hexadecimal digits", origin,
                                                  digits.size(), hexadecimal ? "" : ", some of them no digits", 2 * kJobKeyBytes));
  }
  const std::string raw = absl::HexStringToBytes(digits);
  JobKey key;
  std::ranges::transform(raw, key.bytes_.begin(), [](char byte) { return static_cast<std::byte>(byte); });
  return key;
}

absl::StatusOr<JobKey> JobKey::Random() {
  JobKey key;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(key.bytes_.data()), kJobKeyBytes) != 1) {
    return absl::InternalError("a job key cannot be made: the operating system gives no random bytes");
  }
  return key;
}

std::string JobKey::ToText() const {
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(bytes_.data()), bytes_.size())) + "\n";
}

}  // namespace trainyard::engine
