#include "trainer/collectives/rank_layout.h"

#include <algorithm>
#include <bit>

namespace trainyard::engine {

bool IsLayout(int ranks, int per_node) {
  return per_node > 0 && std::has_single_bit(static_cast<unsigned>(per_node)) && ranks % per_node == 0;
}

RankLayout LayoutOf(std::span<const std::string> nodes) {
  const auto ranks = static_cast<int>(nodes.size());
  // Every block of `size` ranks, from a multiple of it on, runs on one node.
  const auto fits = [&](int size) {
    for (int begin = 0; begin < ranks; begin += size) {
      const std::span<const std::string> block = nodes.subspan(static_cast<size_t>(begin), static_cast<size_t>(size));
      if (block[0].empty() || std::ranges::count(block, block[0]) != size) return false;
    }
    return true;
  };
  int per_node = 1;
  while (IsLayout(ranks, 2 * per_node) && fits(2 * per_node)) per_node *= 2;
  return {ranks, per_node};
}

}  // namespace trainyard::engine
