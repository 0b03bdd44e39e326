// A request's words in messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "trainer/base/printable.h"

namespace trainyard::engine {

// "\"text\"", shortened, without control characters.
inline std::string InQuotes(std::string_view text) {
  constexpr size_t kMostBytes = 60;
  return "\"" + Printable(std::string(text.substr(0, kMostBytes))) + (text.size() > kMostBytes ? "…\"" : "\"");
}

}  // namespace trainyard::engine
