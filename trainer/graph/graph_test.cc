#include "trainer/graph/graph.h"

#include <gtest/gtest.h>

#include "trainer/graph/prune.h"
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

TEST(WithoutUnneeded, KeepsWhatIsAskedForAndAllKeys) {
  Graph graph;
  const NodeId x = graph.AddNode(Source("x"));
  graph.AddNode(Source("unread"));
  const ValueSpec spec = graph.spec({x, 0});
  graph.AddParameter({"never", {1}});
  const int key = graph.AddParameter({"weights", {1}});
  const NodeId weights = graph.AddNode({"weights", ParameterOp{key}, {}, {spec}});
  const int state = graph.AddState({"h", {2, 3}});
  graph.AddNode({"before", IdentityOp{}, {{x, 0}}, {spec}});
  const NodeId sum = graph.AddNode({"sum", AddOp{}, {{x, 0}, {weights, 0}}, {spec}});
  graph.AddNode({"after", IdentityOp{}, {{sum, 0}}, {spec}});
  graph.SetNextState(state, {sum, 0});
  const Graph needed = WithoutUnneeded(graph);
  std::vector<std::string> names;
  for (const Node& node : needed.nodes()) names.push_back(node.name);
  EXPECT_EQ(names, (std::vector<std::string>{"x", "unread", "weights", "sum"}));
  EXPECT_EQ(needed.inputs().size(), 2u);
  ASSERT_EQ(needed.parameters().size(), 2u);
  EXPECT_EQ(std::get<ParameterOp>(needed.node(needed.Find("weights")).op).key, key);
  EXPECT_EQ(needed.next_states()[0].node, needed.Find("sum"));
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
  EXPECT_EQ(OpName(PooledConv2dWeightGradientOp{}), "PooledConv2dWeightGradient");
  EXPECT_EQ(OpText(PooledConv2dWeightGradientOp{{{5, 5}, {1, 1}}, true, {{2, 2}, {2, 2}}, Activation::kRelu}),
            "5x5 stride 1x1 valid + bias + max-pool 2x2 stride 2x2 valid + relu");
  EXPECT_EQ(OpText(DenseOp{{.bias = true, .activation = Activation::kRelu}}), "bias + relu");
  EXPECT_EQ(OpText(DropoutOp{0.25f, 3}), "rate 0.25");
  EXPECT_EQ(OpText(AddOp{}), "");
}

}  // namespace
}  // namespace trainyard::engine
