// Numbers of things in messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace trainyard::engine {

// "1 row", "0 rows", "3 rows"; `plural` for a noun whose plural does not end in an s alone.
inline std::string Counted(int64_t count, std::string_view noun, std::string_view plural = "") {
  std::string text = std::to_string(count) + " ";
  if (count == 1) return text.append(noun);
  return plural.empty() ? text.append(noun).append("s") : text.append(plural);
}

}  // namespace trainyard::engine
