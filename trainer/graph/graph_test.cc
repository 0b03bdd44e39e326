#include "trainer/graph/graph.h"

#include <gtest/gtest.h>

#include "trainer/graph/window.h"

namespace trainyard::engine {
namespace {

Node Source(std::string name) { return {std::move(name), InputOp{}, {}, {ValueSpec{DType::kF32, {2, 3}, true}}}; }

TEST(Graph, FindsNodesByNameAndListsInputs) {
  Graph graph;
  const NodeId x = graph.AddNode(Source("x"));
  const NodeId y = graph.AddNode({"y", IdentityOp{}, {{x, 0}}, {graph.spec({x, 0})}});
  EXPECT_EQ(graph.Find("y"), y);
  EXPECT_EQ(graph.Find("z"), -1);
  ASSERT_EQ(graph.inputs().size(), 1u);
  EXPECT_EQ(graph.inputs()[0], x);
  EXPECT_TRUE(graph.Contains({y, 0}));
  EXPECT_FALSE(graph.Contains({y, 1}));
  EXPECT_FALSE(graph.Contains({2, 0}));
}

TEST(GraphDeathTest, BrokenInvariantsAbort) {
  Graph graph;
  graph.AddNode(Source("x"));
  EXPECT_DEATH(graph.AddNode(Source("x")), "broken invariant");
  EXPECT_DEATH(graph.AddNode({"later", IdentityOp{}, {{1, 0}}, {ValueSpec{}}}), "broken invariant");
  EXPECT_DEATH(graph.SetOutput("loss", {7, 0}), "broken invariant");
  EXPECT_DEATH(graph.AddResult({0, {0, 0}}), "broken invariant");
}

// Expected extents and paddings are those of TensorFlow's documentation of "same" and "valid".
TEST(PlaceWindow, FollowsTensorFlowsPadding) {
  const auto same = PlaceWindow({{3, 2}, {2, 2}, Padding::kSame}, {1, 6, 5, 1});
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(same->out, (std::array<int64_t, 2>{3, 3}));
  EXPECT_EQ(same->pad_before, (std::array<int64_t, 2>{0, 0}));
  const auto even = PlaceWindow({{5, 4}, {1, 1}, Padding::kSame}, {1, 6, 5, 1});
  ASSERT_TRUE(even.ok());
  EXPECT_EQ(even->out, (std::array<int64_t, 2>{6, 5}));
  EXPECT_EQ(even->pad_before, (std::array<int64_t, 2>{2, 1}));
  const auto valid = PlaceWindow({{3, 2}, {2, 2}}, {1, 6, 5, 1});
  ASSERT_TRUE(valid.ok());
  EXPECT_EQ(valid->out, (std::array<int64_t, 2>{2, 2}));
}

TEST(OpText, SaysTheAttributes) {
  EXPECT_EQ(OpName(Conv2dWeightGradientOp{}), "Conv2dWeightGradient");
  EXPECT_EQ(OpText(Conv2dWeightGradientOp{{{5, 5}, {1, 1}}, true}), "5x5 stride 1x1 valid with bias");
  EXPECT_EQ(OpText(DenseOp{{.bias = true, .activation = Activation::kRelu}}), "bias + relu");
  EXPECT_EQ(OpText(DropoutOp{0.25f, 3}), "rate 0.25");
  EXPECT_EQ(OpText(AddOp{}), "");
}

}  // namespace
}  // namespace trainyard::engine
