#include "trainer/base/last_cache.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

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

std::string ReadWord(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// The folders in `folder` whose names are `prefix` and a number.
std::vector<std::filesystem::path> NumberedFolders(const std::filesystem::path& folder, std::string_view prefix) {
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const std::string_view rest = std::string_view(name).substr(std::min(prefix.size(), name.size()));
    const bool number = !rest.empty() && rest.find_first_not_of("0123456789") == std::string_view::npos;
    if (name.starts_with(prefix) && number) found.push_back(it->path());
  }
  return found;
}

}  // namespace

size_t LastCacheBytes(const std::filesystem::path& root) {
  std::map<std::string, size_t> caches;  // by the processors that share each
  for (const std::filesystem::path& processor : NumberedFolders(root / "sys/devices/system/cpu", "cpu")) {
    size_t last = 0;
    std::string sharers;
    for (const std::filesystem::path& cache : NumberedFolders(processor / "cache", "index")) {
      const size_t bytes = ParseCacheSize(ReadWord(cache / "size"));
      if (bytes <= last) continue;
      last = bytes;
      sharers = ReadWord(cache / "shared_cpu_list");
    }
    if (last > 0) caches[sharers] = last;
  }
  size_t bytes = 0;
  for (const auto& [sharers, size] : caches) bytes += size;
  return bytes;
}

}  // namespace trainyard::engine
