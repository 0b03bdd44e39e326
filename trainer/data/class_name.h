// The rule for a class's name.
#pragma once

#include <algorithm>
#include <string_view>

#include "trainer/data/utf8.h"

namespace trainyard::engine {

// 1 to 256 bytes of UTF-8 without control characters: a name is printed, and stands in JSON.
inline bool IsClassName(std::string_view name) {
  return !name.empty() && name.size() <= 256 && IsUtf8(name) &&
         std::ranges::none_of(name, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

}  // namespace trainyard::engine
