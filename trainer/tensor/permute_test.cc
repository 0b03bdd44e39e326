#include "trainer/tensor/permute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;

std::vector<float> Counted(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

TEST(PermuteTest, TransposesAMatrix) { EXPECT_THAT(Permuted(Counted(6), {2, 3}, std::array{1, 0}), ElementsAre(0, 3, 1, 4, 2, 5)); }

TEST(PermuteTest, PutsChannelsFirst) {
  EXPECT_EQ(PermutedShape({1, 2, 2, 3}, std::array{3, 2, 0, 1}), Shape({3, 2, 1, 2}));
  EXPECT_THAT(Permuted(Counted(12), {1, 2, 2, 3}, std::array{3, 2, 0, 1}), ElementsAre(0, 6, 3, 9, 1, 7, 4, 10, 2, 8, 5, 11));
}

TEST(PermuteTest, TheInverseOrderUndoesIt) {
  const std::array axes{2, 0, 3, 1};
  const Shape shape{2, 3, 4, 5};
  const std::vector<float> there = Permuted(Counted(120), shape, axes);
  EXPECT_EQ(Permuted(there, PermutedShape(shape, axes), InverseOrder(axes)), Counted(120));
}

TEST(PermuteTest, TakesScalarsAndNoElements) {
  EXPECT_THAT(Permuted(Counted(1), {}, std::span<const int>()), ElementsAre(0));
  EXPECT_THAT(Permuted({}, {0, 3}, std::array{1, 0}), ElementsAre());
}

TEST(PermuteTest, ReordersBlocks) {
  const std::array order{0, 2, 1};
  EXPECT_THAT(ReorderedBlocks(Counted(6), order), ElementsAre(0, 1, 4, 5, 2, 3));
  EXPECT_THAT(ReorderedBlocks(ReorderedBlocks(Counted(6), order), InverseOrder(order)), ElementsAre(0, 1, 2, 3, 4, 5));
}

}  // namespace
}  // namespace trainyard::engine
