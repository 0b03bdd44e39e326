// Text for people: cut to a length without splitting a UTF-8 character, which the API server would
// refuse; and counts of things.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trainyard::control {

inline constexpr size_t kMaxMessage = 1024;  // bytes of a condition's, a status's or an event's message

// At most `bytes` bytes, the end replaced by "...".
inline std::string Head(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  size_t end = bytes < 3 ? 0 : bytes - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "...";
}

// At most `bytes` bytes, the start replaced by "...".
inline std::string Tail(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  size_t start = text.size() - (bytes < 3 ? 0 : bytes - 3);
  while (start < text.size() && (static_cast<unsigned char>(text[start]) & 0xC0U) == 0x80U) ++start;
  return "..." + std::string(text.substr(start));
}

// "1 pod", "0 pods", "3 pods": of a noun whose plural ends in s.
inline std::string Counted(int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace trainyard::control
