#include "trainer/ops/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

TEST(GraphBuilder, KeysOfParametersCountUp) {
  GraphBuilder builder;
  ASSERT_TRUE(builder.Parameter("a", {2}).ok());
  ASSERT_TRUE(builder.Parameter("b", {3}, /*trainable=*/false).ok());
  const Graph graph = std::move(builder).Build();
  ASSERT_EQ(graph.parameters().size(), 2u);
  EXPECT_EQ(graph.parameters()[1], (ParameterSpec{"b", {3}, false}));
  EXPECT_EQ(std::get<ParameterOp>(graph.node(graph.Find("b")).op).key, 1);
}

TEST(GraphBuilder, NameUsedTwiceIsAnErrorAndAddsNothing) {
  GraphBuilder builder;
  ASSERT_TRUE(builder.Parameter("conv1/kernel", {2}).ok());
  EXPECT_EQ(builder.Parameter("conv1/kernel", {2}).status().message(), "layer 'conv1/kernel': there is already one of that name");
  EXPECT_EQ(builder.graph().nodes().size(), 1u);
  EXPECT_EQ(builder.graph().parameters().size(), 1u);
}

TEST(GraphBuilder, ExtentsThatAreNoExtentsAreErrors) {
  GraphBuilder builder;
  EXPECT_EQ(builder.Parameter("w", {4, 0}).status().message(), "layer 'w': shape [4, 0] has an extent of 0, expected at least 1");
  EXPECT_EQ(builder.Input("x", {-1, 4}).status().message(), "layer 'x': shape [-1, 4] has an extent of -1, expected at least 1");
  constexpr int64_t kHuge = int64_t{1} << 40;
  EXPECT_THAT(std::string(builder.Parameter("w", {kHuge, kHuge, kHuge}).status().message()), HasSubstr("more than 1099511627776 elements"));
  EXPECT_EQ(builder.Input("x", {}).status().message(), "input 'x': shape [] has no batch extent");
  EXPECT_EQ(builder.IntegerInput("y", {2}, 0).status().message(), "input 'y': limit is 0, expected at least 1");
}

TEST(GraphBuilder, OutputNamedTwiceIsAnError) {
  GraphBuilder builder;
  const Value x = *builder.Input("x", {2, 2});
  ASSERT_TRUE(builder.Output("y", x).ok());
  EXPECT_EQ(builder.Output("y", x).message(), "output 'y' is named twice");
}

TEST(GraphBuilder, NextValueIsForParametersThatAreNotTrainable) {
  GraphBuilder builder;
  const Value trained = *builder.Parameter("w", {2});
  const Value state = *builder.Parameter("mean", {2}, /*trainable=*/false);
  const Value other = *builder.Parameter("other", {3}, /*trainable=*/false);
  EXPECT_EQ(builder.NextValue(trained, state).message(), "parameter 'w' is trainable, so only an optimizer may change it");
  EXPECT_EQ(builder.NextValue(state, other).message(), "parameter 'mean': next value has shape [3], expected [2]");
  EXPECT_TRUE(builder.NextValue(state, trained).ok());
  EXPECT_EQ(builder.NextValue(state, trained).message(), "parameter 'mean' has two next values");
}

TEST(GraphBuilder, IsEmptyAfterBuild) {
  GraphBuilder builder;
  ASSERT_TRUE(builder.Input("x", {2, 2}).ok());
  EXPECT_EQ(std::move(builder).Build().nodes().size(), 1u);
}

}  // namespace
}  // namespace trainyard::engine
