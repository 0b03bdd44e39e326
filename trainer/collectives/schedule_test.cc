#include "trainer/collectives/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "trainer/collectives/test_algorithms.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Transfers by (from, to, kind).
using Moves = std::map<std::tuple<int, int, Round::Kind>, std::vector<SliceRange>>;

TEST(Schedule, WhatOneRankSendsTheOtherOneReceives) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    for (const AlgorithmCase& each : CasesOf(ranks)) {
      for (const size_t size : {0, 1, 4, 5, 100, 10'000}) {
        Moves sent;
        Moves received;
        for (int rank = 0; rank < ranks; ++rank) {
          for (const Round& round : AllReduce(each.algorithm, rank, each.layout, size).rounds) {
            for (const Transfer& send : round.sends) sent[{rank, send.peer, round.kind}].push_back(send.range);
            for (const Transfer& receive : round.receives) received[{receive.peer, rank, round.kind}].push_back(receive.range);
          }
        }
        EXPECT_EQ(sent, received) << each << " " << size;
        for (const auto& [move, ranges] : sent) {
          EXPECT_THAT(ranges, SizeIs(1));
          EXPECT_GT(ranges[0].count, 0U);
        }
      }
    }
  }
}

// Ranks as a simulation: what each element of each rank's values is the sum of, as a text of the
// tree.
std::string TreeOf(const std::vector<std::string>& summands, int begin, int end) {
  if (end - begin == 1) return summands[begin];
  int cut = 1;
  while (cut * 2 < end - begin) cut *= 2;
  return "(" + TreeOf(summands, begin, begin + cut) + "+" + TreeOf(summands, begin + cut, end) + ")";
}
std::string Tree(int ranks) {
  std::vector<std::string> names;
  for (int rank = 0; rank < ranks; ++rank) names.push_back(std::to_string(rank));
  return TreeOf(names, 0, ranks);
}

using Mail = std::map<std::tuple<int, int, Round::Kind>, std::vector<std::string>>;

// What `rank` has after a round: received parts in the order of ranks, its own among them, as the
// tree over all of them.
void Take(const Round& round, int rank, const Mail& mail, std::vector<std::string>& values) {
  if (round.receives.empty()) return;
  if (round.kind == Round::Kind::kGather) {
    for (const Transfer& receive : round.receives) {
      std::ranges::copy(mail.at({receive.peer, rank, round.kind}), values.begin() + static_cast<ptrdiff_t>(receive.range.begin));
    }
    return;
  }
  const SliceRange range = round.receives[0].range;
  for (size_t i = 0; i < range.count; ++i) {
    std::map<int, std::string> parts = {{rank, values[range.begin + i]}};
    for (const Transfer& receive : round.receives) parts[receive.peer] = mail.at({receive.peer, rank, round.kind})[i];
    std::vector<std::string> summands;
    for (const auto& [from, part] : parts) summands.push_back(part);
    values[range.begin + i] = TreeOf(summands, 0, static_cast<int>(summands.size()));
  }
}

// All ranks at once, until none can go on: each element of each rank's values is a text of the
// tree.
void ExpectTheTree(const AlgorithmCase& each) {
  const int ranks = each.layout.ranks;
  constexpr size_t kSize = 37;
  std::vector<Schedule> schedules;
  std::vector<std::vector<std::string>> values;
  std::vector<size_t> at(ranks, 0);
  for (int rank = 0; rank < ranks; ++rank) {
    schedules.push_back(AllReduce(each.algorithm, rank, each.layout, kSize));
    values.emplace_back(kSize, std::to_string(rank));
  }
  Mail mail;
  std::vector<bool> sent(ranks, false);
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < ranks; ++rank) {
      if (at[rank] == schedules[rank].rounds.size()) continue;
      const Round& round = schedules[rank].rounds[at[rank]];
      if (!sent[rank]) {
        for (const Transfer& send : round.sends) {
          const auto begin = values[rank].begin() + static_cast<ptrdiff_t>(send.range.begin);
          mail[{rank, send.peer, round.kind}] = {begin, begin + static_cast<ptrdiff_t>(send.range.count)};
        }
        sent[rank] = moved = true;
      }
      bool all = true;
      for (const Transfer& receive : round.receives) all = all && mail.contains({receive.peer, rank, round.kind});
      if (!all) continue;
      Take(round, rank, mail, values[rank]);
      ++at[rank];
      sent[rank] = false;
      moved = true;
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    ASSERT_EQ(at[rank], schedules[rank].rounds.size()) << rank << " waits for ever: " << each;
    for (const std::string& value : values[rank]) ASSERT_EQ(value, Tree(ranks)) << each;
  }
}

TEST(Schedule, AdditionsFollowTheTree) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    for (const AlgorithmCase& each : CasesOf(ranks)) ExpectTheTree(each);
  }
}

TEST(Schedule, HierarchicalSendsLeastBetweenNodes) {
  // Of 8 ranks on 4 nodes: each rank's half goes to 3 other nodes, a quarter of it to each.
  constexpr size_t kSize = 800;
  for (int rank = 0; rank < 8; ++rank) {
    size_t across = 0;
    for (const Round& round : ReduceScatter(AllReduceAlgorithm::kHierarchical, rank, {8, 2}, kSize).rounds) {
      for (const Transfer& send : round.sends) across += send.peer / 2 != rank / 2 ? send.range.count : 0;
    }
    EXPECT_EQ(across, kSize / 2 * 3 / 4);
  }
}

TEST(Schedule, OneRankPerNodeIsDirect) {
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_EQ(AllReduce(AllReduceAlgorithm::kHierarchical, rank, 5, 100).rounds,
              AllReduce(AllReduceAlgorithm::kDirect, rank, 5, 100).rounds);
  }
}

TEST(Schedule, TheRangesThatRanksReduceAreAllElementsOnce) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    for (const AlgorithmCase& each : CasesOf(ranks)) {
      std::vector<int> times(100, 0);
      for (int rank = 0; rank < ranks; ++rank) {
        const SliceRange reduced = ReduceScatter(each.algorithm, rank, each.layout, times.size()).reduced;
        for (size_t i = reduced.begin; i < reduced.end(); ++i) ++times[i];
      }
      EXPECT_THAT(times, ::testing::Each(1)) << each;
    }
  }
}

TEST(Schedule, ABroadcastReachesEveryRankButItsRootOnce) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    for (int root = 0; root < ranks; ++root) {
      std::set<std::pair<int, int>> sent;
      std::set<std::pair<int, int>> received;
      std::set<int> reached;
      for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<int> peers = PeersOf(AllReduceAlgorithm::kHalvingDoubling, rank, ranks);
        for (const Round& round : Broadcast(rank, ranks, 3, root).rounds) {
          for (const Transfer& send : round.sends) {
            EXPECT_TRUE(reached.insert(send.peer).second) << send.peer << " of " << ranks << " from " << root;
            EXPECT_THAT(peers, ::testing::Contains(send.peer));
            sent.emplace(rank, send.peer);
          }
          for (const Transfer& receive : round.receives) received.emplace(receive.peer, rank);
        }
      }
      EXPECT_EQ(sent, received) << ranks << " from " << root;
      EXPECT_THAT(reached, SizeIs(ranks - 1));
      EXPECT_FALSE(reached.contains(root));
    }
  }
}

TEST(Schedule, ThePeersOfARankKnowItToo) {
  for (const AllReduceAlgorithm algorithm :
       {AllReduceAlgorithm::kAuto, AllReduceAlgorithm::kDirect, AllReduceAlgorithm::kHalvingDoubling, AllReduceAlgorithm::kHierarchical}) {
    for (int ranks = 1; ranks <= 33; ++ranks) {
      for (int rank = 0; rank < ranks; ++rank) {
        for (const int peer : PeersOf(algorithm, rank, ranks)) {
          EXPECT_NE(peer, rank);
          EXPECT_THAT(PeersOf(algorithm, peer, ranks), ::testing::Contains(rank));
        }
      }
    }
  }
  EXPECT_THAT(PeersOf(AllReduceAlgorithm::kHalvingDoubling, 5, 16), ElementsAre(0, 1, 4, 7, 13));
  EXPECT_THAT(PeersOf(AllReduceAlgorithm::kDirect, 0, 1), IsEmpty());
  EXPECT_THAT(PeersOf(AllReduceAlgorithm::kHierarchical, 2, 4), ElementsAre(0, 1, 3)) << "nodes may change with each group";
}

TEST(Schedule, TheReducedRangesOfAllRanksMakeUpTheWholeAndAreWhatScatterAndGatherMove) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    for (const auto& [algorithm, layout] : CasesOf(ranks)) {
      for (const size_t size : {0, 1, 5, 64, 1'000}) {
        std::vector<int> owners(size, 0);
        for (int rank = 0; rank < ranks; ++rank) {
          const SliceRange range = ReducedBy(algorithm, rank, layout, size);
          EXPECT_EQ(ReduceScatter(algorithm, rank, layout, size).reduced, range);
          for (size_t i = range.begin; i < range.end(); ++i) ++owners[i];
          if (rank == 0) continue;
          const std::vector<Round> scatter = Scatter(algorithm, rank, layout, size).rounds;
          const std::vector<Round> gather = Gather(algorithm, rank, layout, size).rounds;
          EXPECT_EQ(scatter.size(), range.count > 0 ? 1U : 0U);
          EXPECT_EQ(gather.size(), scatter.size());
          if (scatter.empty()) continue;
          EXPECT_THAT(scatter[0].receives, ElementsAre(Transfer{0, range}));
          EXPECT_THAT(gather[0].sends, ElementsAre(Transfer{0, range}));
          EXPECT_THAT(Scatter(algorithm, 0, layout, size).rounds[0].sends, ::testing::Contains(Transfer{rank, range}));
          EXPECT_THAT(Gather(algorithm, 0, layout, size).rounds[0].receives, ::testing::Contains(Transfer{rank, range}));
        }
        EXPECT_EQ(owners, std::vector<int>(size, 1)) << AlgorithmName(algorithm) << " " << ranks << " " << size;
      }
    }
  }
}

}  // namespace
}  // namespace trainyard::engine
