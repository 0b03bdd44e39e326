#include "trainer/base/last_cache.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace trainyard::engine {
namespace {

// "32768K", "1M" or a number of bytes; 0 for anything else.
size_t ParseCacheSize(std::string_view text) {
  size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<size_t>(end - text.data()));
  constexpr size_t kMost = size_t{1} << 30;  // units: none is as large
  if (error != std::errc() || number > kMost) return 0;
  if (unit.empty()) return number;
  if (unit == "K") return number << 10;
  if (unit == "M") return number << 20;
  return 0;
}

}  // namespace

size_t LastCacheBytes(const std::filesystem::path& root) {
  size_t largest = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(root / "sys/devices/system/cpu/cpu0/cache", error), end; !error && it != end;
       it.increment(error)) {
    std::ifstream file(it->path() / "size");
    std::string text;
    if (file >> text) largest = std::max(largest, ParseCacheSize(text));
  }
  return largest;
}

}  // namespace trainyard::engine
