#include "trainer/collectives/cost_model.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace trainyard::engine {
namespace {

using enum AllReduceAlgorithm;

constexpr size_t kLargest = 1 << 20;

AllReduceTimes TimesOf(const NetworkCost& cost, const RankLayout& layout, size_t elements) {
  return {.elements = elements,
          .direct = AllReduceSeconds(kDirect, layout, elements, cost),
          .rounds = AllReduceSeconds(OfManyRounds(layout), layout, elements, cost)};
}

TEST(CostModel, FollowsTheFormulaOfAPowerOfTwo) {
  // 8 ranks, 8000 bytes: both send and receive 7/8 of them twice, and add 7/8 of them.
  const NetworkCost cost{.latency = 1000, .message = 10, .direct_byte = 2, .rounds_byte = 3, .add_byte = 0.5};
  EXPECT_DOUBLE_EQ(AllReduceSeconds(kDirect, 8, 2000, cost), 2 * 1000 + 2 * 6 * 10 + 14000 * 2 + 7000 * 0.5);
  EXPECT_DOUBLE_EQ(AllReduceSeconds(kHalvingDoubling, 8, 2000, cost), 2 * 3 * 1000 + 14000 * 3 + 7000 * 0.5);
}

TEST(CostModel, FollowsTheFormulaOfSeveralNodes) {
  // 6 ranks on 3 nodes, 12000 bytes: half of them within the node, then two thirds of that half
  // between nodes.
  const NetworkCost cost{.latency = 1000, .message = 10, .direct_byte = 2, .rounds_byte = 3, .add_byte = 0.5};
  EXPECT_DOUBLE_EQ(AllReduceSeconds(kHierarchical, {6, 2}, 3000, cost), 4 * 1000 + 2 * 10 + 2 * 10000 * 3 + 10000 * 0.5);
}

TEST(CostModel, NodesOfSeveralRanksAreWeighedAgainstDirect) {
  EXPECT_EQ(OfManyRounds(6), kHalvingDoubling);
  EXPECT_EQ(OfManyRounds({6, 2}), kHierarchical);
  EXPECT_EQ(OfManyRounds({4, 4}), kHalvingDoubling) << "all ranks are on one node";
  const NetworkCost cost{.latency = 1e-6, .direct_byte = 1 / 1e9, .rounds_byte = 1 / 3e9};
  EXPECT_EQ(CheapestBySize(cost, {6, 2}, kLargest).large, kHierarchical);
}

TEST(CostModel, OneRankPaysNothing) {
  const NetworkCost cost{.latency = 1, .message = 1, .direct_byte = 1, .rounds_byte = 1, .add_byte = 1};
  EXPECT_EQ(AllReduceSeconds(kDirect, 1, 100, cost), 0);
  EXPECT_EQ(AllReduceSeconds(kHalvingDoubling, 1, 100, cost), 0);
}

TEST(CostModel, TheCostsOfMeasuredTimesAreThoseThatMadeThem) {
  const NetworkCost cost{.latency = 40e-6, .message = 5e-6, .direct_byte = 1 / 2e9, .rounds_byte = 1 / 3e9, .add_byte = 1 / 8e9};
  std::vector<RankLayout> layouts = {2, 3, 4, 5, 6, 7, 8, 12, 16, 33};
  for (const auto& [ranks, per_node] : {std::pair(4, 2), {6, 2}, {12, 4}, {64, 2}}) layouts.emplace_back(ranks, per_node);
  for (const RankLayout& layout : layouts) {
    const NetworkCost found = CostOf(TimesOf(cost, layout, 64), TimesOf(cost, layout, 1 << 17), cost.add_byte, layout);
    EXPECT_NEAR(found.latency, cost.latency, 1e-12) << layout.ranks;
    if (layout.ranks > 2) {
      EXPECT_NEAR(found.message, cost.message, 1e-12) << layout.ranks;
    }
    EXPECT_NEAR(found.direct_byte, cost.direct_byte, 1e-18) << layout.ranks;
    EXPECT_NEAR(found.rounds_byte, cost.rounds_byte, 1e-18) << layout.ranks;
  }
}

TEST(CostModel, NoiseMakesNoCostNegative) {
  const NetworkCost found = CostOf({.elements = 64, .direct = 1e-6, .rounds = 90e-6},
                                   AllReduceTimes{.elements = 1 << 17, .direct = 0.5e-6, .rounds = 80e-6}, 1, 4);
  EXPECT_GE(found.latency, 0);
  EXPECT_EQ(found.message, 0);
  EXPECT_EQ(found.direct_byte, 0);
  EXPECT_EQ(found.rounds_byte, 0);
}

TEST(CostModel, WithoutALargeMeasurementLatencyDecides) {
  const NetworkCost found = CostOf({.elements = 64, .direct = 200e-6, .rounds = 300e-6}, std::nullopt, 1e-10, 8);
  EXPECT_EQ(found.direct_byte, 0);
  EXPECT_EQ(CheapestBySize(found, 8, kLargest), (AlgorithmChoice{.small = kDirect, .large = kDirect}));
}

TEST(CostModel, ManyRanksWithDearMessagesTakeHalvingDoublingForSmallBuckets) {
  // 31 messages of a round cost more than 5 rounds, but one peer at a time is slower by the byte.
  const NetworkCost cost{.latency = 20e-6, .message = 10e-6, .direct_byte = 1 / 3e9, .rounds_byte = 1 / 1e9};
  const AlgorithmChoice choice = CheapestBySize(cost, 32, kLargest);
  EXPECT_EQ(choice, (AlgorithmChoice{.small = kHalvingDoubling, .large = kDirect, .up_to = size_t{256} << 10}));
  for (const size_t bytes : {choice.up_to, 2 * choice.up_to}) {
    const bool direct = AllReduceSeconds(kDirect, 32, bytes / 4, cost) <= AllReduceSeconds(kHalvingDoubling, 32, bytes / 4, cost);
    EXPECT_EQ(choice.Of(bytes), direct ? kDirect : kHalvingDoubling) << bytes;
  }
}

TEST(CostModel, ManySendersToOneReceiverMakeDirectTheOneForSmallBuckets) {
  const NetworkCost cost{.latency = 40e-6, .message = 1e-6, .direct_byte = 1 / 1e9, .rounds_byte = 1 / 3e9};
  const AlgorithmChoice choice = CheapestBySize(cost, 4, kLargest);
  EXPECT_EQ(choice.small, kDirect);
  EXPECT_EQ(choice.large, kHalvingDoubling);
  EXPECT_EQ(choice.Of(choice.up_to), kDirect);
  EXPECT_EQ(choice.Of(choice.up_to + 4), kHalvingDoubling);
}

TEST(CostModel, TwoRanksTakeDirect) { EXPECT_EQ(CheapestBySize({.direct_byte = 1}, 2, kLargest), AlgorithmChoice{}); }

TEST(CostModel, ChoiceAndCostsAreSaidInWords) {
  const AlgorithmChoice choice{.small = kDirect, .large = kHalvingDoubling, .up_to = 64 << 10};
  EXPECT_EQ(ChoiceText(choice, 4), "direct up to 64 KiB, halvingDoubling above");
  EXPECT_EQ(ChoiceText({}, 4), "direct");
  EXPECT_EQ(ChoiceText({.small = kDirect, .large = kHierarchical, .up_to = 1 << 20}, {6, 2}),
            "direct up to 1 MiB, hierarchical (3 nodes of 2) above");
  EXPECT_EQ(CostText({.latency = 40e-6, .direct_byte = 1, .rounds_byte = 1 / 3.1e9, .add_byte = 1 / 8e9}, choice),
            "latency 40 us, 3.1 GB/s, sums 8 GB/s");
  EXPECT_EQ(CostText({.latency = 0.05}, choice), "latency 50000 us");
}

}  // namespace
}  // namespace trainyard::engine
