#include "trainer/kvstore/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "absl/strings/numbers.h"
#include "trainer/base/check.h"
#include "trainer/base/sha256.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kFloatsPerLine = static_cast<int64_t>(kBufferAlignment / sizeof(float));

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Cuts [begin, end) of `key` into parts for `server`, appended to `parts`.
void Cut(int key, int server, int64_t begin, int64_t end, int64_t part_elements, std::vector<Part>& parts) {
  do {
    const int64_t count = std::min(part_elements, end - begin);
    parts.push_back({.key = key, .index = 0, .server = server, .begin = begin, .count = count});
    begin += count;
  } while (begin < end);
}

uint64_t HashOf(std::span<const ParameterSpec> specs, int servers, std::span<const Part> parts) {
  Sha256 hash;
  hash.Update(fmt::format("{:016x} {}\n", FingerprintOf(specs), servers));
  for (const Part& part : parts) hash.Update(fmt::format("{} {} {} {} {}\n", part.key, part.index, part.server, part.begin, part.count));
  uint64_t value = 0;
  TY_CHECK(absl::SimpleHexAtoi(hash.HexDigest().substr(0, 16), &value));
  return value;
}

}  // namespace

Placement PlaceParameters(std::span<const ParameterSpec> specs, int servers, const PlacementOptions& options) {
  TY_CHECK(servers >= 1 && options.part_elements >= kFloatsPerLine);
  const int64_t part_elements = options.part_elements / kFloatsPerLine * kFloatsPerLine;
  Placement placement;
  placement.bytes.assign(servers, 0);
  std::vector<std::vector<Part>> by_key(specs.size());
  std::vector<int> order(specs.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](int a, int b) {
    const int64_t left = specs[a].shape.elements();
    const int64_t right = specs[b].shape.elements();
    return left != right ? left > right : a < b;
  });
  for (const int key : order) {
    const int64_t elements = specs[key].shape.elements();
    if (servers > 1 && elements >= options.split_elements) {
      const int64_t share = RoundUp((elements + servers - 1) / servers, kFloatsPerLine);
      for (int server = 0; server < servers; ++server) {
        const int64_t begin = std::min(elements, server * share);
        const int64_t end = std::min(elements, begin + share);
        if (begin < end) Cut(key, server, begin, end, part_elements, by_key[key]);
        placement.bytes[server] += (end - begin) * static_cast<int64_t>(sizeof(float));
      }
      continue;
    }
    const int server = static_cast<int>(std::ranges::min_element(placement.bytes) - placement.bytes.begin());
    Cut(key, server, 0, elements, part_elements, by_key[key]);
    placement.bytes[server] += elements * static_cast<int64_t>(sizeof(float));
  }
  for (std::vector<Part>& parts : by_key) {
    placement.first_of_key.push_back(static_cast<int>(placement.parts.size()));
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].index = static_cast<int>(i);
      placement.parts.push_back(parts[i]);
    }
  }
  placement.first_of_key.push_back(static_cast<int>(placement.parts.size()));
  placement.hash = HashOf(specs, servers, placement.parts);
  return placement;
}

}  // namespace trainyard::engine
