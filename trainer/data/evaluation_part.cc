#include "trainer/data/evaluation_part.h"

#include <algorithm>
#include <cmath>
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
  std::vector<size_t> order(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, [&](size_t a, size_t b) {
    if (groups[a] != groups[b]) return groups[a] < groups[b];
    return keys[a] != keys[b] ? keys[a] < keys[b] : a < b;
  });
  std::vector<bool> evaluation(keys.size(), false);
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && groups[order[end]] == groups[order[begin]]) ++end;
    const auto share = static_cast<size_t>(std::llround(fraction * static_cast<double>(end - begin)));
    const size_t chosen = std::min(share, end - begin - 1);
    for (size_t i = begin; i < begin + chosen; ++i) evaluation[order[i]] = true;
    begin = end;
  }
  return evaluation;
}

}  // namespace trainyard::engine
