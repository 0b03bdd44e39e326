// The sums of groups: the bits of tree_order.h, on every transport, with every algorithm.
#include "trainer/collectives/rank_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/sanitized.h"
#include "trainer/collectives/test_algorithms.h"
#include "trainer/collectives/test_ranks.h"

namespace trainyard::engine {
namespace {

bool Everyone(int /*rank*/) { return true; }

TEST_P(RanksTest, TheSumOfAnyNumberOfRanksHasTheBitsOfTheTree) {
  for (const AllReduceAlgorithm algorithm : kBothAlgorithms) {
    for (int ranks = 1; ranks <= 16; ++ranks) {
      if (GetParam().name == "Grpc" && ranks > 9 && ranks < 16) continue;  // a stream for every two ranks
      if (kSanitized && ranks > 9) continue;
      MakeRanks(ranks, algorithm);
      FormAll();
      int64_t step = 0;
      for (const size_t size : {0, 1, 4, 100, 1'000, 10'000}) {
        OnAll([&](TestRank& rank, int) {
          rank.Plan(algorithm, size);
          const absl::Status reduced = rank.Reduce(step);
          EXPECT_TRUE(reduced.ok()) << reduced;
        });
        const std::vector<float> expected = SumOf(ranks, size, step, Everyone);
        for (const auto& rank : ranks_) EXPECT_EQ(rank->result(), expected) << AlgorithmName(algorithm) << " " << ranks << " " << size;
        ++step;
      }
    }
  }
}

// Longer than any other test's: ranks of one machine read them where they lie.
TEST_P(RanksTest, LongSumsHaveTheBitsOfTheTreeAlsoWhereStepsFollowAtOnce) {
  constexpr size_t kSize = 140'000;
  constexpr int64_t kSteps = 3;
  for (const int ranks : {2, 4}) {
    std::vector<std::vector<float>> expected;
    for (int64_t step = 0; step < kSteps; ++step) expected.push_back(SumOf(ranks, kSize, step, Everyone));
    for (const AllReduceAlgorithm algorithm : kBothAlgorithms) {
      MakeRanks(ranks, algorithm);
      FormAll();
      OnAll([&](TestRank& rank, int) {
        rank.Plan(algorithm, kSize);
        for (int64_t step = 0; step < kSteps; ++step) {
          ASSERT_TRUE(rank.Reduce(step).ok());
          EXPECT_EQ(rank.result(), expected[step]) << AlgorithmName(algorithm) << " " << ranks;
        }
      });
    }
  }
}

TEST_P(RanksTest, NodesFirstHasTheBitsOfTheTreeAndFollowsTheNodesOfEachGroup) {
  for (const auto& [ranks, per_node, expected_per_node] :
       {std::tuple(1, 1, 1), {2, 2, 2}, {4, 2, 2}, {6, 2, 2}, {6, 6, 2}, {6, 3, 1}, {8, 4, 4}}) {
    per_node_ = per_node;
    MakeRanks(ranks, AllReduceAlgorithm::kHierarchical);
    FormAll();
    int64_t step = 0;
    for (const size_t size : {0, 1, 4, 100, 10'000}) {
      OnAll([&](TestRank& rank, int) {
        EXPECT_EQ(rank.group().layout(), RankLayout(ranks, expected_per_node));
        rank.Plan(AllReduceAlgorithm::kHierarchical, size);
        const absl::Status reduced = rank.Reduce(step);
        EXPECT_TRUE(reduced.ok()) << reduced;
      });
      const std::vector<float> expected = SumOf(ranks, size, step, Everyone);
      for (const auto& rank : ranks_) EXPECT_EQ(rank->result(), expected) << ranks << " " << size;
      ++step;
    }
  }
}

TEST_P(RanksTest, AllRanksKnowWhetherTheyHaveOneKindOfDevice) {
  const auto form = [this](const std::vector<std::string>& kinds) {
    ranks_.clear();
    hosts_ = Addresses(GetParam().name, static_cast<int>(kinds.size()));
    for (size_t rank = 0; rank < kinds.size(); ++rank) {
      RankGroupOptions options = Options(static_cast<int>(rank));
      options.device_kind = kinds[rank];
      ranks_.push_back(std::make_unique<TestRank>(std::move(options), *transport_));
    }
    FormAll();
    const bool one_kind = ranks_[0]->group().one_device_kind();
    for (const auto& rank : ranks_) EXPECT_EQ(rank->group().one_device_kind(), one_kind);
    return one_kind;
  };
  EXPECT_TRUE(form({"a GPU"}));
  EXPECT_FALSE(form({"a GPU", "a GPU", "another GPU"}));
  EXPECT_FALSE(form({"a GPU", ""}));
  EXPECT_FALSE(form({"", "a GPU"}));
  EXPECT_FALSE(form({"", ""}));
  EXPECT_TRUE(form({"a GPU", "a GPU", "a GPU"}));
  // The next group has kinds of its own.
  OnAll([](TestRank& rank, int index) {
    if (index == 1) return rank.Kill();
    rank.Plan(AllReduceAlgorithm::kDirect, 100);
    EXPECT_TRUE(absl::IsAborted(rank.Reduce(0)));
  });
  ranks_[1] = std::make_unique<TestRank>(Options(1), *transport_);
  FormAll();
  EXPECT_FALSE(ranks_[0]->group().one_device_kind());
}

TEST_P(RanksTest, ARankThatComesBackOnAnotherNodeChangesTheLayoutOfAll) {
  per_node_ = 2;
  MakeRanks(4, AllReduceAlgorithm::kHierarchical);
  FormAll();
  for (const auto& rank : ranks_) EXPECT_EQ(rank->group().layout(), RankLayout(4, 2));
  OnAll([](TestRank& rank, int index) {
    if (index == 3) return rank.Kill();
    rank.Plan(AllReduceAlgorithm::kHierarchical, 100);
    EXPECT_TRUE(absl::IsAborted(rank.Reduce(0)));
  });
  RankGroupOptions moved = Options(3, AllReduceAlgorithm::kHierarchical);
  moved.node = "elsewhere";
  ranks_[3] = std::make_unique<TestRank>(std::move(moved), *transport_);
  // Those that are left say their nodes again.
  FormAll();
  OnAll([](TestRank& rank, int) {
    EXPECT_EQ(rank.group().layout(), RankLayout(4, 1));
    rank.Plan(AllReduceAlgorithm::kHierarchical, 100);
    EXPECT_TRUE(rank.Reduce(0).ok());
    EXPECT_EQ(rank.result(), SumOf(4, 100, 0, Everyone));
  });
}

TEST_P(RanksTest, ABigBucketAndManyBucketsAtOnce) {
  constexpr size_t kBig = kSanitized ? 1 << 20 : 4 << 20;
  for (const AllReduceAlgorithm algorithm : kBothAlgorithms) {
    for (const int ranks : {2, 3, 4}) {
      MakeRanks(ranks, algorithm);
      FormAll();
      constexpr size_t kSize = kBucketBytes / sizeof(float);
      constexpr size_t kBuckets = kBig / kSize;
      for (int64_t step = 0; step < 2; ++step) {
        OnAll([&](TestRank& rank, int) {
          if (step == 0) rank.Plan(algorithm, kSize, kBuckets);
          const absl::Status reduced = rank.Reduce(step);
          EXPECT_TRUE(reduced.ok()) << reduced;
        });
        const std::vector<float> expected = SumOf(ranks, kSize, step, Everyone);
        for (const auto& rank : ranks_) {
          for (size_t i = 0; i < kBuckets; ++i) ASSERT_EQ(rank->result(i), expected) << ranks << " ranks, bucket " << i;
        }
      }
    }
  }
}

TEST_P(RanksTest, SumsThatDoNotFitTheSharedCacheHaveTheSameBits) {
  constexpr size_t kSize = 30'000;
  constexpr int kRanks = 3;
  for (const auto& [cache, fits] : {std::pair(kRanks * kSize * sizeof(float), true), {kRanks * kSize * sizeof(float) - 1, false}}) {
    last_cache_ = cache;
    MakeRanks(kRanks, AllReduceAlgorithm::kDirect);
    FormAll();
    OnAll([&, fits = fits](TestRank& rank, int) {
      rank.Plan(AllReduceAlgorithm::kDirect, kSize);
      for (int64_t step = 0; step < 3; ++step) {
        ASSERT_TRUE(rank.Reduce(step).ok());
        // Until the first step is over a stream may not know what is at its other end.
        if (step > 0) EXPECT_EQ(rank.past_caches(), !fits && GetParam().name == kShared.name);
        EXPECT_EQ(rank.result(), SumOf(kRanks, kSize, step, Everyone));
      }
    });
  }
}

TEST_P(RanksTest, ResultsMayRestWhereTheyAreUntilTheNextStepReplacesThem) {
  constexpr int64_t kSteps = 20;
  constexpr size_t kSize = 30'000;  // as much as is lent rather than copied
  for (const AllReduceAlgorithm algorithm : kBothAlgorithms) {
    for (const int ranks : {2, 3, 4}) {
      MakeRanks(ranks, algorithm);
      FormAll();
      OnAll([&](TestRank& rank, int index) {
        rank.Plan(algorithm, kSize, 3);
        rank.LetResultsRest();
        for (int64_t step = 0; step < kSteps; ++step) {
          if (step % ranks == index) std::this_thread::yield();
          ASSERT_TRUE(rank.Reduce(step).ok());
          const std::vector<float> expected = SumOf(ranks, kSize, step, Everyone);
          for (size_t bucket = 0; bucket < 3; ++bucket) ASSERT_EQ(rank.result(bucket), expected) << "step " << step;
        }
        const absl::Status read = rank.group().AwaitReaders();
        EXPECT_TRUE(read.ok()) << read;
        EXPECT_TRUE(rank.group().results().Borrowers().empty());
      });
      ranks_.clear();
    }
  }
}

TEST_P(RanksTest, ARankWithoutExamplesContributesNothingAndMeansAreDivided) {
  for (const AllReduceAlgorithm algorithm : kBothAlgorithms) {
    for (const int ranks : {2, 3, 5, 7}) {
      MakeRanks(ranks, algorithm);
      FormAll();
      const auto contributes = [](int rank) { return rank % 3 == 1; };
      int contributors = 0;
      for (int rank = 0; rank < ranks; ++rank) contributors += contributes(rank) ? 1 : 0;
      for (const Divisor divisor : {Divisor::kAll, Divisor::kContributors}) {
        const int64_t step = divisor == Divisor::kAll ? 0 : 1;
        OnAll([&](TestRank& rank, int index) {
          rank.Plan(algorithm, 1'000);
          EXPECT_TRUE(rank.Reduce(step, contributes(index), divisor).ok());
        });
        std::vector<float> expected = SumOf(ranks, 1'000, step, contributes);
        const int by = divisor == Divisor::kAll ? ranks : contributors;
        for (float& value : expected) {
          if (by != 1) value /= static_cast<float>(by);
        }
        for (const auto& rank : ranks_) {
          EXPECT_EQ(rank->result(), expected) << ranks;
          EXPECT_EQ(rank->contributors(), contributors);
        }
      }
      OnAll([&](TestRank& rank, int) {
        rank.Plan(algorithm, 100);
        EXPECT_TRUE(rank.Reduce(2, /*contributes=*/false, Divisor::kAll).ok());
        EXPECT_EQ(rank.contributors(), 0);
        EXPECT_EQ(rank.result(), std::vector<float>(100, -7));  // as it was
      });
    }
  }
}

TEST_P(RanksTest, ReduceScatterGivesEachRankItsPartAndAllGatherTheWhole) {
  constexpr size_t kSize = 1'000;
  for (const AllReduceAlgorithm algorithm : kBothAlgorithms) {
    for (const int ranks : {2, 3, 4, 6}) {
      MakeRanks(ranks, algorithm);
      FormAll();
      const std::vector<float> expected = SumOf(ranks, kSize, 0, Everyone);
      OnAll([&](TestRank& rank, int index) {
        rank.Plan(algorithm, kSize);
        const Schedule scatter = ReduceScatter(algorithm, index, ranks, kSize);
        rank.PlanAs({.name = "reduce-scatter", .buckets = {{.name = "'tensor'", .elements = kSize, .schedule = scatter}}});
        EXPECT_TRUE(rank.Reduce(0).ok());
        const std::span<float> values = rank.values();
        for (size_t i = 0; i < kSize; ++i) {
          const bool mine = i >= scatter.reduced.begin && i < scatter.reduced.end();
          ASSERT_EQ(values[i], mine ? expected[i] : -7);
        }
        rank.PlanAs({.name = "all-gather",
                     .buckets = {{.name = "'tensor'", .elements = kSize, .schedule = AllGather(algorithm, index, ranks, kSize)}}});
        rank.Begin(1);
        rank.group().Contribute(0, {.own = {values}, .targets = {{.values = values}}});
        EXPECT_TRUE(rank.Wait().ok());
        EXPECT_EQ(rank.result(), expected);
      });
    }
  }
}

TEST_P(RanksTest, ABroadcastGivesAllRanksWhatItsRootHas) {
  for (const auto& [ranks, root] : {std::pair(1, 0), std::pair(2, 0), std::pair(2, 1), std::pair(3, 2), std::pair(8, 0), std::pair(8, 6)}) {
    MakeRanks(ranks);
    FormAll(17);
    constexpr size_t kSize = kBucketBytes / sizeof(float);
    OnAll([&, ranks = ranks, root = root](TestRank& rank, int index) {
      rank.Plan(AllReduceAlgorithm::kAuto, kSize);
      rank.PlanAs(
          {.name = "broadcast", .buckets = {{.name = "'state'", .elements = kSize, .schedule = Broadcast(index, ranks, kSize, root)}}});
      const std::vector<float> own = ValuesOf(5, kSize);
      rank.Begin(17);
      if (index == root) {
        rank.group().Contribute(0, {.own = {own}, .targets = {}});
      } else {
        rank.group().Contribute(0, {.own = {}, .targets = {{.values = rank.values()}}});
      }
      EXPECT_TRUE(rank.Wait().ok());
      if (index != root) {
        EXPECT_EQ(rank.result(), own);
      }
    });
  }
}

TEST_P(RanksTest, RankZeroHearsHowLongEachRankTakes) {
  MakeRanks(3);
  FormAll();
  const auto pace = [](int rank) {
    return WorkerPace{.worker = rank, .step = absl::Milliseconds(10 + rank), .node = "node-" + std::to_string(rank)};
  };
  for (int rank = 0; rank < 3; ++rank) ranks_[rank]->group().TellPace(pace(rank));
  const absl::Time end = RealClock().Now() + absl::Seconds(20);
  while (ranks_[0]->group().paces().size() < 3 && RealClock().Now() < end) std::this_thread::yield();
  EXPECT_THAT(ranks_[0]->group().paces(), ::testing::ElementsAre(pace(0), pace(1), pace(2)));
}

INSTANTIATE_TEST_SUITE_P(Transports, RanksTest, ::testing::Values(kInproc, kShared, kGrpc),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace trainyard::engine
