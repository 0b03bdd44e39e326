// UTF-8 (RFC 3629).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trainyard::engine {

inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// The bytes of the code point that begins `text`; 0 when it is none (RFC 3629: no overlong forms,
// no surrogates, at most U+10FFFF).
inline size_t CodePointBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  size_t bytes = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xbf;
  if (first >= 0xc2 && first <= 0xdf) {
    bytes = 2;
  } else if (first >= 0xe0 && first <= 0xef) {
    bytes = 3;
    if (first == 0xe0) low = 0xa0;
    if (first == 0xed) high = 0x9f;
  } else if (first >= 0xf0 && first <= 0xf4) {
    bytes = 4;
    if (first == 0xf0) low = 0x90;
    if (first == 0xf4) high = 0x8f;
  }
  if (bytes == 0 || text.size() < bytes || byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < bytes; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return bytes;
}

inline bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = CodePointBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

}  // namespace trainyard::engine
