// The schedule of a bucket: which ranks exchange which part, in which round. Pure, without I/O, and
// the same on every rank. Additions follow tree_order.h whatever the algorithm
// (docs/collectives.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "trainer/collectives/rank_layout.h"

namespace trainyard::engine {

// kAuto: what cost_model.h finds cheaper for a size, on the network that measure_network.h
// measures. kHierarchical: halvings among the ranks of a node, then direct between the nodes'
// ranks that hold the same part. With one rank per node that is direct.
enum class AllReduceAlgorithm : uint8_t { kAuto, kDirect, kHalvingDoubling, kHierarchical };

// "auto", "direct", "halvingDoubling", "hierarchical"
std::string_view AlgorithmName(AllReduceAlgorithm algorithm);

// Elements of a bucket.
struct SliceRange {
  size_t begin = 0;
  size_t count = 0;
  size_t end() const { return begin + count; }
  friend bool operator==(const SliceRange&, const SliceRange&) = default;
};

struct Transfer {
  int peer = 0;
  SliceRange range;
  friend bool operator==(const Transfer&, const Transfer&) = default;
};

// A rank sends what it has, then waits for what it receives, then goes on to the next round. No
// range is empty.
struct Round {
  enum class Kind : uint8_t { kReduce, kGather };
  Kind kind = Kind::kReduce;
  std::vector<Transfer> sends;
  // kReduce: all of one range, in the order of ranks; they are added to what this rank has of it.
  // kGather: they are final.
  std::vector<Transfer> receives;
  friend bool operator==(const Round&, const Round&) = default;
};

// Of one rank and one bucket. A pair of ranks exchanges at most one transfer of each kind each way.
struct Schedule {
  std::vector<Round> rounds;
  SliceRange reduced;  // what this rank has the whole sum of after the last kReduce; may be empty
};

// Of `size` elements; `algorithm` is not kAuto.
//
// The elements that `rank` has the whole sum of after ReduceScatter. The ranges of all ranks make
// up [0, size). Direct and hierarchical give each rank an equal one. Halving-doubling gives all of
// it to the largest power of two of the ranks.
SliceRange ReducedBy(AllReduceAlgorithm algorithm, int rank, const RankLayout& layout, size_t size);
Schedule ReduceScatter(AllReduceAlgorithm algorithm, int rank, const RankLayout& layout, size_t size);
Schedule AllGather(AllReduceAlgorithm algorithm, int rank, const RankLayout& layout, size_t size);
// One after the other.
Schedule AllReduce(AllReduceAlgorithm algorithm, int rank, const RankLayout& layout, size_t size);
// From `root`, along a binomial tree of rank 0. Another root gives it to rank 0 first.
Schedule Broadcast(int rank, int ranks, size_t size, int root = 0);

// Rank 0 gives each rank its range of AllReduce's `algorithm`, and gets the ranges of all ranks.
Schedule Scatter(AllReduceAlgorithm algorithm, int rank, const RankLayout& layout, size_t size);
Schedule Gather(AllReduceAlgorithm algorithm, int rank, const RankLayout& layout, size_t size);

// Ranks that `rank` exchanges anything with in Broadcast and in AllReduce of one of the algorithms
// that `algorithm` may become, on whatever nodes, and rank 0; ascending.
std::vector<int> PeersOf(AllReduceAlgorithm algorithm, int rank, int ranks);

}  // namespace trainyard::engine
