// Values that the tests of each algorithm share.
#pragma once

#include <ostream>
#include <vector>

#include "trainer/collectives/schedule.h"

namespace trainyard::engine {

inline constexpr AllReduceAlgorithm kBothAlgorithms[] = {AllReduceAlgorithm::kDirect, AllReduceAlgorithm::kHalvingDoubling};

// An algorithm, and how the ranks lie on nodes.
struct AlgorithmCase {
  AllReduceAlgorithm algorithm;
  RankLayout layout;
};

// Every algorithm, and hierarchical on every layout, of `ranks` ranks.
inline std::vector<AlgorithmCase> CasesOf(int ranks) {
  std::vector<AlgorithmCase> cases;
  for (const AllReduceAlgorithm algorithm : kBothAlgorithms) cases.push_back({algorithm, ranks});
  for (int per_node = 1; per_node <= ranks; per_node *= 2) {
    if (IsLayout(ranks, per_node)) cases.push_back({AllReduceAlgorithm::kHierarchical, {ranks, per_node}});
  }
  return cases;
}

inline std::ostream& operator<<(std::ostream& out, const AlgorithmCase& each) {
  return out << AlgorithmName(each.algorithm) << ", " << each.layout.ranks << " ranks, " << each.layout.per_node << " per node";
}

}  // namespace trainyard::engine
