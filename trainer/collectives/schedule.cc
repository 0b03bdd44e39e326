#include "trainer/collectives/schedule.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

SliceRange Slice(int index, int slices, SliceRange range) {
  const auto cut = [&](int at) { return range.count * static_cast<size_t>(at) / static_cast<size_t>(slices); };
  return {range.begin + cut(index), cut(index + 1) - cut(index)};
}

SliceRange Half(SliceRange range, bool upper) {
  const size_t low = (range.count + 1) / 2;
  return upper ? SliceRange{range.begin + low, range.count - low} : SliceRange{range.begin, low};
}

// The range of member `index` of a block of `ranks` after all its halvings.
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

// Ranks that exchange slices of `range`, each with all others: `first`, `first` + `stride` and so
// on.
struct Circle {
  SliceRange Of(int index) const { return Slice(index, members, range); }

  SliceRange range;
  int members = 0;
  int index = 0;  // of this rank
  int first = 0;
  int stride = 1;
};

Round DirectRound(Round::Kind kind, const Circle& circle) {
  Round round{.kind = kind, .sends = {}, .receives = {}};
  const SliceRange own = circle.Of(circle.index);
  const bool reduce = kind == Round::Kind::kReduce;
  for (int other = 0; other < circle.members; ++other) {
    if (other == circle.index) continue;
    const int peer = circle.first + other * circle.stride;
    round.sends.push_back({peer, reduce ? circle.Of(other) : own});
    round.receives.push_back({peer, reduce ? own : circle.Of(other)});
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
  int base() const { return bases[mine]; }
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

// Of member `index` of the ranks [base, base + members): each exchanges a half of what it has with
// one that is twice as far as the one before. Members are a power of two.
void HalveAmong(int base, int index, int members, size_t size, Rounds& rounds) {
  SliceRange range{0, size};
  for (int bit = 1; bit < members; bit *= 2) {
    const int partner = base + (index ^ bit);
    const bool upper = (index & bit) != 0;
    rounds.Add({Round::Kind::kReduce, {{partner, Half(range, !upper)}}, {{partner, Half(range, upper)}}});
    range = Half(range, upper);
  }
}

void DoubleAmong(int base, int index, int members, size_t size, Rounds& rounds) {
  for (int bit = members / 2; bit > 0; bit /= 2) {
    const int partner = base + (index ^ bit);
    // The ranges of the two after the halvings up to `bit`.
    rounds.Add({Round::Kind::kGather, {{partner, HalvedTo(index, 2 * bit, size)}}, {{partner, HalvedTo(index ^ bit, 2 * bit, size)}}});
  }
}

void Halve(const Blocks& blocks, size_t size, Rounds& rounds) {
  HalveAmong(blocks.base(), blocks.index, blocks.size(), size, rounds);
  if (!blocks.last()) rounds.Add({Round::Kind::kReduce, {}, {{blocks.Smaller(), HalvedTo(blocks.index, blocks.size(), size)}}});
  if (blocks.mine > 0) rounds.Add({Round::Kind::kReduce, blocks.Larger(size), {}});
}

void Double(const Blocks& blocks, size_t size, Rounds& rounds) {
  if (blocks.mine > 0) rounds.Add({Round::Kind::kGather, {}, blocks.Larger(size)});
  if (!blocks.last()) rounds.Add({Round::Kind::kGather, {{blocks.Smaller(), HalvedTo(blocks.index, blocks.size(), size)}}, {}});
  DoubleAmong(blocks.base(), blocks.index, blocks.size(), size, rounds);
}

// The ranks that `rank` exchanges slices with: all of them, or, after the halvings within each
// node, the one of each node with the same part.
Circle CircleOf(AllReduceAlgorithm algorithm, int rank, const RankLayout& layout, size_t size) {
  if (algorithm == AllReduceAlgorithm::kDirect) {
    return {.range = {0, size}, .members = layout.ranks, .index = rank, .first = 0, .stride = 1};
  }
  const int place = rank % layout.per_node;
  return {.range = HalvedTo(place, layout.per_node, size),
          .members = layout.nodes(),
          .index = rank / layout.per_node,
          .first = place,
          .stride = layout.per_node};
}

// Between rank 0 and each other rank.
std::vector<Transfer> ToOthers(AllReduceAlgorithm algorithm, const RankLayout& layout, size_t size) {
  std::vector<Transfer> transfers;
  for (int peer = 1; peer < layout.ranks; ++peer) transfers.push_back({peer, ReducedBy(algorithm, peer, layout, size)});
  return transfers;
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
    case AllReduceAlgorithm::kHierarchical:
      return "hierarchical";
  }
  return "?";
}

SliceRange ReducedBy(AllReduceAlgorithm algorithm, int rank, const RankLayout& layout, size_t size) {
  TY_CHECK(algorithm != AllReduceAlgorithm::kAuto && IsLayout(layout.ranks, layout.per_node));
  if (algorithm != AllReduceAlgorithm::kHalvingDoubling) {
    const Circle circle = CircleOf(algorithm, rank, layout, size);
    return circle.Of(circle.index);
  }
  const Blocks blocks(rank, layout.ranks);
  return blocks.mine == 0 ? HalvedTo(blocks.index, blocks.size(), size) : SliceRange{};
}

Schedule ReduceScatter(AllReduceAlgorithm algorithm, int rank, const RankLayout& layout, size_t size) {
  Rounds rounds;
  if (algorithm == AllReduceAlgorithm::kHalvingDoubling) {
    Halve(Blocks(rank, layout.ranks), size, rounds);
  } else {
    const int place = rank % layout.per_node;
    if (algorithm == AllReduceAlgorithm::kHierarchical) HalveAmong(rank - place, place, layout.per_node, size, rounds);
    rounds.Add(DirectRound(Round::Kind::kReduce, CircleOf(algorithm, rank, layout, size)));
  }
  return {rounds.Take(), ReducedBy(algorithm, rank, layout, size)};
}

Schedule AllGather(AllReduceAlgorithm algorithm, int rank, const RankLayout& layout, size_t size) {
  TY_CHECK(algorithm != AllReduceAlgorithm::kAuto);
  Rounds rounds;
  if (algorithm == AllReduceAlgorithm::kHalvingDoubling) {
    Double(Blocks(rank, layout.ranks), size, rounds);
  } else {
    const int place = rank % layout.per_node;
    rounds.Add(DirectRound(Round::Kind::kGather, CircleOf(algorithm, rank, layout, size)));
    if (algorithm == AllReduceAlgorithm::kHierarchical) DoubleAmong(rank - place, place, layout.per_node, size, rounds);
  }
  return {rounds.Take(), {}};
}

Schedule AllReduce(AllReduceAlgorithm algorithm, int rank, const RankLayout& layout, size_t size) {
  Schedule schedule = ReduceScatter(algorithm, rank, layout, size);
  for (Round& round : AllGather(algorithm, rank, layout, size).rounds) schedule.rounds.push_back(std::move(round));
  return schedule;
}

Schedule Broadcast(int rank, int ranks, size_t size, int root) {
  const SliceRange all{0, size};
  Rounds rounds;
  Round sends{.kind = Round::Kind::kGather, .sends = {}, .receives = {}};
  if (rank != root) rounds.Add({Round::Kind::kGather, {}, {{rank == 0 ? root : rank & (rank - 1), all}}});
  if (rank == root && root > 0) sends.sends.push_back({0, all});
  const int reach = rank == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) : rank & -rank;
  for (int distance = reach / 2; distance > 0; distance /= 2) {
    const int child = rank + distance;
    if (child < ranks && child != root) sends.sends.push_back({child, all});
  }
  rounds.Add(std::move(sends));
  return {rounds.Take(), {}};
}

Schedule Scatter(AllReduceAlgorithm algorithm, int rank, const RankLayout& layout, size_t size) {
  Rounds rounds;
  if (rank > 0) {
    rounds.Add({Round::Kind::kGather, {}, {{0, ReducedBy(algorithm, rank, layout, size)}}});
  } else {
    rounds.Add({Round::Kind::kGather, ToOthers(algorithm, layout, size), {}});
  }
  return {rounds.Take(), {}};
}

Schedule Gather(AllReduceAlgorithm algorithm, int rank, const RankLayout& layout, size_t size) {
  Rounds rounds;
  if (rank > 0) {
    rounds.Add({Round::Kind::kGather, {{0, ReducedBy(algorithm, rank, layout, size)}}, {}});
  } else {
    rounds.Add({Round::Kind::kGather, {}, ToOthers(algorithm, layout, size)});
  }
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
