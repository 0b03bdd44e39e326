// The rule for a class's name.
#pragma once

#include <algorithm>
#include <string_view>

namespace trainyard::engine {

// 1 to 256 bytes without control characters: a name is printed.
inline bool IsClassName(std::string_view name) {
  return !name.empty() && name.size() <= 256 && std::ranges::none_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

}  // namespace trainyard::engine
