#include "trainer/data/example_range.h"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard::engine {

absl::StatusOr<ExampleRange> ResolveRange(ExampleRange range, int64_t records, std::string_view name) {
  if (range.end < 0) range.end = records;
  if (range.begin >= 0 && range.begin < range.end && range.end <= records) return range;
  return absl::OutOfRangeError(fmt::format("range [{}, {}) does not fit into the {} records of {}", range.begin, range.end, records, name));
}

std::vector<int64_t> FilesWithin(const std::vector<int64_t>& files, ExampleRange range) {
  std::vector<int64_t> within;
  int64_t first = 0;
  for (const int64_t records : files) {
    const int64_t count = std::min(range.end, first + records) - std::max(range.begin, first);
    if (count > 0) within.push_back(count);
    first += records;
  }
  return within;
}

}  // namespace trainyard::engine
