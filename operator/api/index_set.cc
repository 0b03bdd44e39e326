#include "operator/api/index_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace trainyard::control {

std::string FormatIndexes(const std::set<int>& indexes) {
  std::string text;
  for (auto it = indexes.begin(); it != indexes.end();) {
    const int first = *it;
    int last = first;
    for (++it; it != indexes.end() && *it == last + 1; ++it) last = *it;
    if (!text.empty()) text += ",";
    text += first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
  }
  return text;
}

std::set<int> ParseIndexes(std::string_view text, int limit) {
  std::set<int> indexes;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int first = 0;
    auto parsed = std::from_chars(at, end, first);
    if (parsed.ec != std::errc() || first < 0) return indexes;
    int last = first;
    if (parsed.ptr < end && *parsed.ptr == '-') {
      parsed = std::from_chars(parsed.ptr + 1, end, last);
      if (parsed.ec != std::errc()) return indexes;
    }
    for (int i = first; i <= std::min(last, limit - 1); ++i) indexes.insert(i);
    if (parsed.ptr < end && *parsed.ptr != ',') return indexes;
    at = parsed.ptr + 1;
  }
  return indexes;
}

}  // namespace trainyard::control
