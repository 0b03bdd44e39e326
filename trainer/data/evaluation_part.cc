#include "trainer/data/evaluation_part.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstddef>

#include "trainer/base/check.h"
#include "trainer/data/random.h"

namespace trainyard::engine {

uint64_t SplitKey(uint64_t seed, std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a (Fowler, Noll, Vo)
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return Random(seed, hash).Next();
}

std::vector<bool> EvaluationPart(std::span<const uint64_t> keys, std::span<const int32_t> groups, double fraction) {
  TY_CHECK(keys.size() == groups.size());
  struct Drawn {
    uint64_t key;
    size_t example;
    auto operator<=>(const Drawn&) const = default;
  };
  std::vector<bool> evaluation(keys.size(), false);
  if (keys.empty() || fraction == 0) return evaluation;
  // The examples of each group lie side by side: from begins[group] on.
  std::vector<size_t> begins(static_cast<size_t>(std::ranges::max(groups)) + 2, 0);
  for (const int32_t group : groups) ++begins[static_cast<size_t>(group) + 1];
  for (size_t group = 1; group < begins.size(); ++group) begins[group] += begins[group - 1];
  std::vector<size_t> next(begins.begin(), begins.end() - 1);
  std::vector<Drawn> drawn(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) drawn[next[static_cast<size_t>(groups[i])]++] = {.key = keys[i], .example = i};
  for (size_t group = 0; group + 1 < begins.size(); ++group) {
    const std::span<Drawn> members(drawn.begin() + static_cast<std::ptrdiff_t>(begins[group]), begins[group + 1] - begins[group]);
    if (members.empty()) continue;
    const auto share = static_cast<size_t>(std::llround(fraction * static_cast<double>(members.size())));
    const size_t chosen = std::min(share, members.size() - 1);
    std::ranges::nth_element(members, members.begin() + static_cast<std::ptrdiff_t>(chosen));
    for (const Drawn& one : members.first(chosen)) evaluation[one.example] = true;
  }
  return evaluation;
}

}  // namespace trainyard::engine
