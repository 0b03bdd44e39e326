// Names from outside, in messages.
#pragma once

#include <algorithm>
#include <string>

namespace trainyard::engine {

// `text` with a ? for each control character: none moves a terminal's cursor.
inline std::string Printable(std::string text) {
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return text;
}

}  // namespace trainyard::engine
