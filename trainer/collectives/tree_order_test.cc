#include "trainer/collectives/tree_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Where the order of additions shows in the sum: each rank's number is far from the others'.
std::vector<float> Contribution(int rank, size_t size) {
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i) values[i] = std::ldexp(1.0F + 0.37F * static_cast<float>((rank * 31 + i * 7) % 97), (rank * 13) % 29);
  return values;
}

// As the header says it, by recursion.
std::vector<float> Recursive(int begin, int end, size_t size) {
  if (end - begin == 1) return Contribution(begin, size);
  const int cut = begin + TreeSplit(end - begin);
  std::vector<float> left = Recursive(begin, cut, size);
  const std::vector<float> right = Recursive(cut, end, size);
  for (size_t i = 0; i < size; ++i) left[i] += right[i];
  return left;
}

TEST(TreeOrderTest, RanksAreCutAtTheLargestPowerOfTwoBelowTheirNumber) {
  const std::vector<int> expected = {1, 2, 2, 4, 4, 4, 4, 8, 8};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(TreeSplit(static_cast<int>(i) + 2), expected[i]) << i + 2;
}

TEST(TreeOrderTest, TheSumOfAnyNumberOfRanksIsThatOfTheTree) {
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 100}) {
    constexpr size_t kSize = 37;
    TreeSum sum(ranks, kSize);
    for (int round = 0; round < 2; ++round) {
      std::vector<std::vector<float>> kept(ranks);
      sum.Begin(kSize);
      for (int rank = 0; rank < ranks; ++rank) {
        kept[rank] = Contribution(rank, kSize);
        if (rank % 3 == 0) {
          const std::span<float> scratch = sum.Scratch();
          std::ranges::copy(kept[rank], scratch.begin());
          sum.Add(scratch);
        } else {
          sum.Add(kept[rank]);
        }
      }
      const std::span<const float> total = sum.Finish();
      EXPECT_EQ(std::vector<float>(total.begin(), total.end()), Recursive(0, ranks, kSize)) << ranks;
    }
  }
}

// Of ranks that may have nothing.
std::optional<std::vector<float>> RecursiveOfSome(const std::vector<bool>& with, int begin, int end, size_t size) {
  if (end - begin == 1) return with[begin] ? std::optional(Contribution(begin, size)) : std::nullopt;
  const int cut = begin + TreeSplit(end - begin);
  std::optional<std::vector<float>> left = RecursiveOfSome(with, begin, cut, size);
  const std::optional<std::vector<float>> right = RecursiveOfSome(with, cut, end, size);
  if (!left || !right) return left ? left : right;
  for (size_t i = 0; i < size; ++i) (*left)[i] += (*right)[i];
  return left;
}

TEST(TreeOrderTest, AnyRanksMayHaveNothing) {
  constexpr size_t kSize = 70;
  for (int ranks = 1; ranks <= 9; ++ranks) {
    TreeSum sum(ranks, kSize);
    for (int some = 0; some < 1 << ranks; ++some) {
      std::vector<bool> with(ranks);
      for (int rank = 0; rank < ranks; ++rank) with[rank] = (some >> rank & 1) != 0;
      const auto add = [&] {
        sum.Begin(kSize);
        for (int rank = 0; rank < ranks; ++rank) {
          if (!with[rank]) {
            sum.AddNothing();
            continue;
          }
          std::ranges::copy(Contribution(rank, kSize), sum.Scratch().begin());
          sum.Add(sum.Scratch());
        }
      };
      const std::vector<float> expected = RecursiveOfSome(with, 0, ranks, kSize).value_or(std::vector<float>());
      add();
      const std::span<const float> total = sum.Finish();
      EXPECT_EQ(std::vector<float>(total.begin(), total.end()), expected) << ranks << " ranks, of them " << some;
      add();
      std::vector<float> out(kSize);
      EXPECT_EQ(sum.FinishInto(out, 1), some != 0);
      if (some != 0) EXPECT_EQ(out, expected) << ranks << " ranks, of them " << some;
    }
  }
}

TEST(TreeOrderTest, TheOrderIsNotThatOfTheRanks) {
  TreeSum sum(4, 1);
  sum.Begin(1);
  for (const float value : {1e8F, 1.0F, -1e8F, 1.0F}) {
    sum.Scratch()[0] = value;
    sum.Add(sum.Scratch());
  }
  EXPECT_THAT(sum.Finish(), ElementsAre((1e8F + 1.0F) + (-1e8F + 1.0F)));
  EXPECT_NE((1e8F + 1.0F) + (-1e8F + 1.0F), ((1e8F + 1.0F) + -1e8F) + 1.0F);
}

TEST(TreeOrderTest, ARankWithoutAContributionIsLeftOut) {
  TreeSum sum(5, 1);
  sum.Begin(1);
  const float minus_zero = -0.0F;
  sum.AddNothing();
  sum.AddNothing();
  sum.AddNothing();
  sum.Add({&minus_zero, 1});
  sum.AddNothing();
  ASSERT_EQ(sum.Finish().size(), 1);
  EXPECT_TRUE(std::signbit(sum.Finish()[0]));
  sum.Begin(1);
  for (int rank = 0; rank < 5; ++rank) sum.AddNothing();
  EXPECT_THAT(sum.Finish(), IsEmpty());
  std::vector<float> out = {7};
  EXPECT_FALSE(sum.FinishInto(out, 1));
  EXPECT_THAT(out, ElementsAre(7));
}

TEST(TreeOrderTest, ASumMayGoWhereAContributionWas) {
  for (const int ranks : {1, 2, 3, 4, 6, 7, 8, 15, 16, 17, 64}) {
    for (int mine = 0; mine < ranks; ++mine) {
      constexpr size_t kSize = 133;
      std::vector<std::vector<float>> kept(ranks);
      TreeSum sum(ranks, kSize);
      sum.Begin(kSize);
      for (int rank = 0; rank < ranks; ++rank) {
        kept[rank] = Contribution(rank, kSize);
        sum.Add(kept[rank]);
      }
      EXPECT_TRUE(sum.FinishInto(kept[mine], 1));
      EXPECT_EQ(kept[mine], Recursive(0, ranks, kSize)) << ranks << " ranks, into that of " << mine;
    }
  }
}

TEST(TreeOrderTest, AMeanIsTheSumDividedAlsoWhereTheQuotientIsAlmostZero) {
  for (const float divisor : {1.0F, 2.0F, 3.0F, 64.0F, 100.0F}) {
    for (const int ranks : {1, 2, 3, 4}) {
      for (const float tiny : {1.0F, 0x1p-126F, 0x1.8p-148F}) {
        std::vector<std::vector<float>> kept(ranks);
        TreeSum sum(ranks, 37);
        sum.Begin(37);
        for (int rank = 0; rank < ranks; ++rank) {
          kept[rank] = Contribution(rank, 37);
          for (float& value : kept[rank]) value *= tiny;
          sum.Add(kept[rank]);
        }
        std::vector<float> expected(37);
        ASSERT_TRUE(sum.FinishInto(expected, 1));
        for (float& value : expected) value /= divisor;
        sum.Begin(37);
        for (const std::vector<float>& values : kept) sum.Add(values);
        EXPECT_TRUE(sum.FinishInto(kept[0], divisor));
        EXPECT_EQ(kept[0], expected) << ranks << " ranks, divided by " << divisor;
      }
    }
  }
}

}  // namespace
}  // namespace trainyard::engine
