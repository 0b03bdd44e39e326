#include "trainer/collectives/rank_layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace trainyard::engine {
namespace {

int PerNode(const std::vector<std::string>& nodes) { return LayoutOf(nodes).per_node; }

TEST(RankLayout, BlocksOfAPowerOfTwoShareANode) {
  EXPECT_EQ(PerNode({"a"}), 1);
  EXPECT_EQ(PerNode({"a", "a"}), 2);
  EXPECT_EQ(PerNode({"a", "b"}), 1);
  EXPECT_EQ(PerNode({"a", "a", "b", "b"}), 2);
  EXPECT_EQ(PerNode({"a", "a", "a", "a"}), 4);
  EXPECT_EQ(PerNode({"a", "a", "b", "b", "c", "c"}), 2);
  EXPECT_EQ(LayoutOf(std::vector<std::string>{"a", "a", "b", "b", "c", "c"}).nodes(), 3);
}

TEST(RankLayout, RanksThatDoNotLieSideBySideCountAsAlone) {
  EXPECT_EQ(PerNode({"a", "b", "a", "b"}), 1);
  EXPECT_EQ(PerNode({"a", "a", "a"}), 1) << "two of them would leave one over";
  EXPECT_EQ(PerNode({"a", "a", "a", "b"}), 1) << "the second block has two nodes";
  EXPECT_EQ(PerNode({"b", "a", "a", "a", "a", "a", "a", "a"}), 1);
}

TEST(RankLayout, SixRanksOfOneNodeAreThreeBlocks) { EXPECT_EQ(PerNode({"a", "a", "a", "a", "a", "a"}), 2); }

TEST(RankLayout, RanksOfUnknownNodesShareNone) {
  EXPECT_EQ(PerNode({"", ""}), 1);
  EXPECT_EQ(PerNode({"a", "a", "", ""}), 1);
}

TEST(RankLayout, OnlyPowersOfTwoThatDivideTheRanksAreLayouts) {
  EXPECT_TRUE(IsLayout(6, 2));
  EXPECT_FALSE(IsLayout(6, 3));
  EXPECT_FALSE(IsLayout(6, 4));
  EXPECT_FALSE(IsLayout(6, 0));
  EXPECT_FALSE(IsLayout(6, -2));
}

}  // namespace
}  // namespace trainyard::engine
