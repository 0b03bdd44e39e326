#include "trainer/collectives/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  for (const AllReduceAlgorithm algorithm : kBothAlgorithms) {
    for (int ranks = 1; ranks <= 17; ++ranks) {
      for (const size_t size : {0, 1, 4, 5, 100, 10'000}) {
        Moves sent;
        Moves received;
        for (int rank = 0; rank < ranks; ++rank) {
          for (const Round& round : AllReduce(algorithm, rank, ranks, size).rounds) {
            for (const Transfer& send : round.sends) sent[{rank, send.peer, round.kind}].push_back(send.range);
            for (const Transfer& receive : round.receives) received[{receive.peer, rank, round.kind}].push_back(receive.range);
          }
        }
        EXPECT_EQ(sent, received) << AlgorithmName(algorithm) << " " << ranks << " " << size;
        for (const auto& [move, ranges] : sent) {
          EXPECT_THAT(ranges, SizeIs(1));
          EXPECT_GT(ranges[0].count, 0U);
        }
      }
    }
  }
}

// Ranks as a simulation: what each element of each rank's values is the sum of, as a text of the tree.
std::string Tree(int begin, int end) {
  if (end - begin == 1) return std::to_string(begin);
  int cut = 1;
  while (cut * 2 < end - begin) cut *= 2;
  return "(" + Tree(begin, begin + cut) + "+" + Tree(begin + cut, end) + ")";
}

TEST(Schedule, AdditionsFollowTheTree) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    constexpr size_t kSize = 37;
    std::vector<Schedule> schedules;
    std::vector<std::vector<std::string>> values;
    std::vector<size_t> at(ranks, 0);
    for (int rank = 0; rank < ranks; ++rank) {
      schedules.push_back(AllReduce(AllReduceAlgorithm::kHalvingDoubling, rank, ranks, kSize));
      values.emplace_back(kSize, std::to_string(rank));
    }
    Moves unused;
    std::map<std::tuple<int, int, Round::Kind>, std::vector<std::string>> mail;
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
        for (const Transfer& receive : round.receives) {
          const std::vector<std::string>& part = mail[{receive.peer, rank, round.kind}];
          for (size_t i = 0; i < part.size(); ++i) {
            std::string& mine = values[rank][receive.range.begin + i];
            if (round.kind == Round::Kind::kGather) {
              mine = part[i];
            } else {
              mine = receive.peer > rank ? "(" + mine + "+" + part[i] + ")" : "(" + part[i] + "+" + mine + ")";
            }
          }
        }
        ++at[rank];
        sent[rank] = false;
        moved = true;
      }
    }
    for (int rank = 0; rank < ranks; ++rank) {
      ASSERT_EQ(at[rank], schedules[rank].rounds.size()) << rank << " of " << ranks << " waits for ever";
      for (const std::string& value : values[rank]) ASSERT_EQ(value, Tree(0, ranks));
    }
  }
}

TEST(Schedule, TheRangesThatRanksReduceAreAllElementsOnce) {
  for (const AllReduceAlgorithm algorithm : kBothAlgorithms) {
    for (int ranks = 1; ranks <= 17; ++ranks) {
      std::vector<int> times(100, 0);
      for (int rank = 0; rank < ranks; ++rank) {
        const SliceRange reduced = ReduceScatter(algorithm, rank, ranks, times.size()).reduced;
        for (size_t i = reduced.begin; i < reduced.end(); ++i) ++times[i];
      }
      EXPECT_THAT(times, ::testing::Each(1)) << AlgorithmName(algorithm) << " " << ranks;
    }
  }
}

TEST(Schedule, ABroadcastReachesEveryRankOnce) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    std::map<int, int> reached;
    for (int rank = 0; rank < ranks; ++rank) {
      for (const Round& round : Broadcast(rank, ranks, 3).rounds) {
        for (const Transfer& send : round.sends) ++reached[send.peer];
      }
    }
    EXPECT_THAT(reached, SizeIs(ranks - 1));
    for (const auto& [rank, times] : reached) EXPECT_EQ(times, 1) << rank << " of " << ranks;
  }
}

TEST(Schedule, ThePeersOfARankKnowItToo) {
  for (const AllReduceAlgorithm algorithm :
       {AllReduceAlgorithm::kAuto, AllReduceAlgorithm::kDirect, AllReduceAlgorithm::kHalvingDoubling}) {
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
}

TEST(Schedule, AutoTakesFewMessagesWhereSlicesAreSmall) {
  using enum AllReduceAlgorithm;
  EXPECT_EQ(Choose(kAuto, 100, 8), kDirect);
  EXPECT_EQ(Choose(kAuto, 100, 9), kHalvingDoubling);
  EXPECT_EQ(Choose(kAuto, 1 << 20, 64), kDirect);
  EXPECT_EQ(Choose(kAuto, 1 << 20, 65), kHalvingDoubling);
  EXPECT_EQ(Choose(kHalvingDoubling, 1 << 20, 2), kHalvingDoubling);
}

}  // namespace
}  // namespace trainyard::engine
