// Who exchanges which part of a bucket with whom, in which round: pure, the same on every rank, apart from I/O. Additions follow
// tree_order.h whatever the algorithm (docs/collectives.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace trainyard::engine {

enum class AllReduceAlgorithm : uint8_t { kAuto, kDirect, kHalvingDoubling };

// "auto", "direct", "halvingDoubling"
std::string_view AlgorithmName(AllReduceAlgorithm algorithm);

// What kAuto takes for a bucket: kDirect with up to 8 ranks, and where each rank's slice has at least 16 KiB; else kHalvingDoubling,
// which sends 2 log2(ranks) messages in place of 2 (ranks - 1) smaller ones. Others stay what they are.
AllReduceAlgorithm Choose(AllReduceAlgorithm algorithm, size_t bytes, int ranks);

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

// A rank sends what it has, then waits for what it receives, then goes on to the next round. No range is empty.
struct Round {
  enum class Kind : uint8_t { kReduce, kGather };
  Kind kind = Kind::kReduce;
  std::vector<Transfer> sends;
  // kReduce: all of one range, in the order of ranks; they are added to what this rank has of it. kGather: they are final.
  std::vector<Transfer> receives;
};

// Of one rank and one bucket. A pair of ranks exchanges at most one transfer of each kind each way.
struct Schedule {
  std::vector<Round> rounds;
  SliceRange reduced;  // what this rank has the whole sum of after the last kReduce; may be empty
};

// Of `size` elements; `algorithm` is not kAuto.
Schedule ReduceScatter(AllReduceAlgorithm algorithm, int rank, int ranks, size_t size);
Schedule AllGather(AllReduceAlgorithm algorithm, int rank, int ranks, size_t size);
// One after the other.
Schedule AllReduce(AllReduceAlgorithm algorithm, int rank, int ranks, size_t size);
// From rank 0, along a binomial tree.
Schedule Broadcast(int rank, int ranks, size_t size);

// Ranks that `rank` exchanges anything with in Broadcast and in AllReduce of one of the algorithms that `algorithm` may become, and
// rank 0; ascending.
std::vector<int> PeersOf(AllReduceAlgorithm algorithm, int rank, int ranks);

}  // namespace trainyard::engine
