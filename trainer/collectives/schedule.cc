#include "trainer/collectives/schedule.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

constexpr int kFewRanks = 8;
constexpr size_t kLeastSliceBytes = 16 << 10;

SliceRange Slice(int index, int slices, size_t size) {
  const size_t begin = size * static_cast<size_t>(index) / static_cast<size_t>(slices);
  return {begin, size * (static_cast<size_t>(index) + 1) / static_cast<size_t>(slices) - begin};
}

SliceRange Half(SliceRange range, bool upper) {
  const size_t low = (range.count + 1) / 2;
  return upper ? SliceRange{range.begin + low, range.count - low} : SliceRange{range.begin, low};
}

// What member `index` of a block of `ranks` has after all its halvings.
SliceRange HalvedTo(int index, int ranks, size_t size) {
  SliceRange range{0, size};
  for (int bit = 1; bit < ranks; bit *= 2) range = Half(range, (index & bit) != 0);
  return range;
}

// Collects rounds without what is empty.
class Rounds {
 public:
  void Add(Round round) {
    const auto empty = [](const Transfer& transfer) { return transfer.range.count == 0; };
    std::erase_if(round.sends, empty);
    std::erase_if(round.receives, empty);
    if (!round.sends.empty() || !round.receives.empty()) rounds_.push_back(std::move(round));
  }
  std::vector<Round> Take() { return std::move(rounds_); }

 private:
  std::vector<Round> rounds_;
};

Round DirectRound(Round::Kind kind, int rank, int ranks, size_t size) {
  Round round{.kind = kind, .sends = {}, .receives = {}};
  const SliceRange own = Slice(rank, ranks, size);
  const bool reduce = kind == Round::Kind::kReduce;
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    const SliceRange theirs = Slice(peer, ranks, size);
    round.sends.push_back({peer, reduce ? theirs : own});
    round.receives.push_back({peer, reduce ? own : theirs});
  }
  return round;
}

// The powers of two that make up the ranks, the largest first, and this rank's place in them.
struct Blocks {
  Blocks(int rank, int ranks) {
    int base = 0;
    for (int left = ranks; left > 0;) {
      const int size = static_cast<int>(std::bit_floor(static_cast<unsigned>(left)));
      if (rank >= base) mine = static_cast<int>(sizes.size());
      bases.push_back(base);
      sizes.push_back(size);
      base += size;
      left -= size;
    }
    index = rank - bases[mine];
  }
  int size() const { return sizes[mine]; }
  bool last() const { return mine + 1 == static_cast<int>(sizes.size()); }
  int Member(int block, int member) const { return bases[block] + member; }
  // The member of the next smaller block that this rank's part of a sum belongs to.
  int Smaller() const { return Member(mine + 1, index & (sizes[mine + 1] - 1)); }
  // Members of the next larger block that share this rank's part, with what each has of it.
  std::vector<Transfer> Larger(size_t size) const {
    std::vector<Transfer> transfers;
    for (int member = index; member < sizes[mine - 1]; member += sizes[mine]) {
      transfers.push_back({Member(mine - 1, member), HalvedTo(member, sizes[mine - 1], size)});
    }
    return transfers;
  }

  std::vector<int> bases;
  std::vector<int> sizes;
  int mine = 0;
  int index = 0;
};

void Halve(const Blocks& blocks, size_t size, Rounds& rounds) {
  SliceRange range{0, size};
  for (int bit = 1; bit < blocks.size(); bit *= 2) {
    const int partner = blocks.Member(blocks.mine, blocks.index ^ bit);
    const bool upper = (blocks.index & bit) != 0;
    rounds.Add({Round::Kind::kReduce, {{partner, Half(range, !upper)}}, {{partner, Half(range, upper)}}});
    range = Half(range, upper);
  }
  if (!blocks.last()) rounds.Add({Round::Kind::kReduce, {}, {{blocks.Smaller(), range}}});
  if (blocks.mine > 0) rounds.Add({Round::Kind::kReduce, blocks.Larger(size), {}});
}

void Double(const Blocks& blocks, size_t size, Rounds& rounds) {
  if (blocks.mine > 0) rounds.Add({Round::Kind::kGather, {}, blocks.Larger(size)});
  if (!blocks.last()) rounds.Add({Round::Kind::kGather, {{blocks.Smaller(), HalvedTo(blocks.index, blocks.size(), size)}}, {}});
  for (int bit = blocks.size() / 2; bit > 0; bit /= 2) {
    const int partner = blocks.Member(blocks.mine, blocks.index ^ bit);
    // What each of the two has after the halvings up to `bit`.
    rounds.Add({Round::Kind::kGather,
                {{partner, HalvedTo(blocks.index, 2 * bit, size)}},
                {{partner, HalvedTo(blocks.index ^ bit, 2 * bit, size)}}});
  }
}

}  // namespace

std::string_view AlgorithmName(AllReduceAlgorithm algorithm) {
  switch (algorithm) {
    case AllReduceAlgorithm::kAuto:
      return "auto";
    case AllReduceAlgorithm::kDirect:
      return "direct";
    case AllReduceAlgorithm::kHalvingDoubling:
      return "halvingDoubling";
  }
  return "?";
}

AllReduceAlgorithm Choose(AllReduceAlgorithm algorithm, size_t bytes, int ranks) {
  if (algorithm != AllReduceAlgorithm::kAuto) return algorithm;
  if (ranks <= kFewRanks || bytes / static_cast<size_t>(ranks) >= kLeastSliceBytes) return AllReduceAlgorithm::kDirect;
  return AllReduceAlgorithm::kHalvingDoubling;
}

Schedule ReduceScatter(AllReduceAlgorithm algorithm, int rank, int ranks, size_t size) {
  TY_CHECK(algorithm != AllReduceAlgorithm::kAuto);
  Rounds rounds;
  if (algorithm == AllReduceAlgorithm::kDirect) {
    rounds.Add(DirectRound(Round::Kind::kReduce, rank, ranks, size));
    return {rounds.Take(), Slice(rank, ranks, size)};
  }
  const Blocks blocks(rank, ranks);
  Halve(blocks, size, rounds);
  return {rounds.Take(), blocks.mine == 0 ? HalvedTo(blocks.index, blocks.size(), size) : SliceRange{}};
}

Schedule AllGather(AllReduceAlgorithm algorithm, int rank, int ranks, size_t size) {
  TY_CHECK(algorithm != AllReduceAlgorithm::kAuto);
  Rounds rounds;
  if (algorithm == AllReduceAlgorithm::kDirect) {
    rounds.Add(DirectRound(Round::Kind::kGather, rank, ranks, size));
  } else {
    Double(Blocks(rank, ranks), size, rounds);
  }
  return {rounds.Take(), {}};
}

Schedule AllReduce(AllReduceAlgorithm algorithm, int rank, int ranks, size_t size) {
  Schedule schedule = ReduceScatter(algorithm, rank, ranks, size);
  for (Round& round : AllGather(algorithm, rank, ranks, size).rounds) schedule.rounds.push_back(std::move(round));
  return schedule;
}

Schedule Broadcast(int rank, int ranks, size_t size) {
  const SliceRange all{0, size};
  Rounds rounds;
  if (rank > 0) rounds.Add({Round::Kind::kGather, {}, {{rank & (rank - 1), all}}});
  const int reach = rank == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) : rank & -rank;
  Round sends{.kind = Round::Kind::kGather, .sends = {}, .receives = {}};
  for (int distance = reach / 2; distance > 0; distance /= 2) {
    if (rank + distance < ranks) sends.sends.push_back({rank + distance, all});
  }
  rounds.Add(std::move(sends));
  return {rounds.Take(), {}};
}

std::vector<int> PeersOf(AllReduceAlgorithm algorithm, int rank, int ranks) {
  std::set<int> peers;
  if (rank > 0) peers.insert(0);
  if (rank == 0) {  // every rank has a stream with it
    for (int peer = 1; peer < ranks; ++peer) peers.insert(peer);
  }
  const auto add = [&](const Schedule& schedule) {
    for (const Round& round : schedule.rounds) {
      for (const Transfer& transfer : round.sends) peers.insert(transfer.peer);
      for (const Transfer& transfer : round.receives) peers.insert(transfer.peer);
    }
  };
  const size_t every = static_cast<size_t>(ranks) * 2;  // no slice is empty
  add(Broadcast(rank, ranks, every));
  if (algorithm != AllReduceAlgorithm::kHalvingDoubling) add(AllReduce(AllReduceAlgorithm::kDirect, rank, ranks, every));
  if (algorithm != AllReduceAlgorithm::kDirect) add(AllReduce(AllReduceAlgorithm::kHalvingDoubling, rank, ranks, every));
  return {peers.begin(), peers.end()};
}

}  // namespace trainyard::engine
