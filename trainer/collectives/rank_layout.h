// The nodes that ranks run on, as far as sums can use them: docs/collectives.md, "Nodes first".
#pragma once

#include <span>
#include <string>

namespace trainyard::engine {

// Ranks [i * per_node, (i + 1) * per_node) run on one node each. `per_node` is a power of two that
// divides `ranks`: so the sum over a node is a node of the tree of sums (tree_order.h).
struct RankLayout {
  // Implicit: of ranks whose nodes do not matter.
  RankLayout(int ranks, int per_node = 1) : ranks(ranks), per_node(per_node) {}  // NOLINT(google-explicit-constructor)
  int ranks;
  int per_node;
  int nodes() const { return ranks / per_node; }
  friend bool operator==(const RankLayout&, const RankLayout&) = default;
};

// Whether `per_node` can be one of `ranks` ranks.
bool IsLayout(int ranks, int per_node);

// The layout with the most ranks per node. `nodes`: the name of each rank's node; "": unknown, no
// other rank is there.
RankLayout LayoutOf(std::span<const std::string> nodes);

}  // namespace trainyard::engine
