#include "trainer/backend/narrow_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "trainer/backend/reference/trial.h"
#include "trainer/ops/fuse.h"
#include "trainer/ops/gradient.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The names of nodes whose first output is held as bfloat16, in order.
std::vector<std::string> NarrowOf(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) {
    if (node.outputs[0].narrow) names.push_back(node.name);
  }
  return names;
}

class NarrowValuesTest : public testing::Test {
 protected:
  GraphBuilder& builder() { return trial_.builder(); }
  Value Conv(const std::string& name, Value x, int64_t filters) {
    return *builder().Conv2d(name, x, trial_.Parameter(name + "/kernel", {1, 1, builder().spec(x).shape[3], filters}));
  }
  Value Norm(const std::string& name, Value x) {
    const Shape channels = {builder().spec(x).shape[3]};
    const BatchNormParameters parameters = {
        .gamma = trial_.Parameter(name + "/gamma", channels),
        .beta = trial_.Parameter(name + "/beta", channels),
        .moving_mean = trial_.Parameter(name + "/moving_mean", channels, /*trainable=*/false),
        .moving_variance = trial_.Parameter(name + "/moving_variance", channels, /*trainable=*/false),
    };
    const Value y = *builder().BatchNorm(name, x, parameters, 0.9f, 1e-3f);
    return *builder().Activate(name + "_relu", y, Activation::kRelu);
  }
  Value Features(Value x) { return *builder().Flatten("flat", x); }
  Graph Narrowed(Value y, NarrowReach reach = NarrowReach::kConvolutions) {
    trial_.MeanSquaredLoss(y);
    return NarrowValues(FuseEpilogues(builder().graph()), reach);
  }
  Value Dense(const std::string& name, Value x, int64_t units) {
    return *builder().Dense(name, x, trial_.Parameter(name + "/kernel", {builder().spec(x).shape[-1], units}));
  }

  Trial trial_;
};

TEST_F(NarrowValuesTest, WhatConvolutionsLeaveAndIsMadeOfItIsHeldInBfloat16UpToTheFirstOtherOp) {
  const Value x = Conv("conv1", trial_.Input("x", {2, 4, 4, 3}), 8);
  const Value y = Conv("conv2", Norm("norm", x), 8);
  const Value sum = *builder().Add("sum", std::array{x, y});
  const Graph graph = Narrowed(Features(Norm("last", sum)));
  EXPECT_THAT(NarrowOf(graph), ElementsAre("conv1", "norm", "conv2", "sum", "last"));
  EXPECT_EQ(graph.node(graph.node(graph.Find("flat")).inputs[0].node).name, "last/f32");
}

TEST_F(NarrowValuesTest, GradientsAreHeldAsTheirValues) {
  const Value x = Conv("conv1", trial_.Input("x", {2, 4, 4, 3}), 8);
  Graph graph = Narrowed(Features(Norm("norm", x)));
  ASSERT_TRUE(AddGradients(graph, graph.loss(), {}).ok());
  EXPECT_THAT(NarrowOf(graph), ElementsAre("conv1", "norm", "gradients/norm/f32/input", "gradients/norm/input"));
}

TEST_F(NarrowValuesTest, AGradientBeforeAnEpilogueIsHeldAsWhatTheConvolutionLeaves) {
  const Value x = *builder().Activate("relu1", Conv("conv1", trial_.Input("x", {2, 4, 4, 3}), 8), Activation::kRelu);
  Graph graph = Narrowed(Features(*builder().MaxPool("pool", Conv("conv2", x, 8), {{2, 2}, {2, 2}})));
  ASSERT_TRUE(AddGradients(graph, graph.loss(), {}).ok());
  EXPECT_THAT(NarrowOf(graph), ElementsAre("conv1", "gradients/conv2/epilogue", "gradients/conv2/input", "gradients/conv1/epilogue"));
}

TEST_F(NarrowValuesTest, AGradientBeforeAPoolWhoseWindowsOverlapStaysF32) {
  const Window overlapping{.size = {3, 3}, .stride = {2, 2}};
  Graph graph = Narrowed(Features(*builder().MaxPool("pool", Conv("conv1", trial_.Input("x", {2, 7, 7, 3}), 8), overlapping)));
  ASSERT_TRUE(AddGradients(graph, graph.loss(), {}).ok());
  EXPECT_THAT(NarrowOf(graph), IsEmpty());
}

TEST_F(NarrowValuesTest, OddChannelsStayF32) {
  const Value x = Conv("conv1", trial_.Input("x", {2, 4, 4, 2}), 7);
  EXPECT_THAT(NarrowOf(Narrowed(Features(Norm("norm", x)))), IsEmpty());
}

TEST_F(NarrowValuesTest, WhatTheGraphNamesStaysF32AndIsRoundedForItsReaders) {
  const Value x = Conv("conv1", trial_.Input("x", {2, 4, 4, 2}), 8);
  ASSERT_TRUE(builder().Output("features", x).ok());
  const Value y = Conv("conv2", x, 8);
  const Graph graph = Narrowed(Features(*builder().Add("sum", std::array{y, y})));
  EXPECT_THAT(NarrowOf(graph), ElementsAre("conv2", "sum"));
}

TEST_F(NarrowValuesTest, AConvolutionThatPoolsOrFeedsADenseLayerLeavesF32) {
  const Value x = *builder().MaxPool("pool", Conv("conv1", trial_.Input("x", {2, 4, 4, 2}), 8), {{2, 2}, {2, 2}});
  EXPECT_THAT(NarrowOf(Narrowed(Features(Conv("conv2", x, 8)))), IsEmpty());
}

TEST_F(NarrowValuesTest, UpToADenseLayerPooledValuesAndTheirGradientsAreHeldInBfloat16) {
  Value x = *builder().MaxPool("pool1", Conv("conv1", trial_.Input("x", {2, 8, 8, 2}), 8), {{2, 2}, {2, 2}});
  x = *builder().MaxPool("pool2", Conv("conv2", x, 6), {{2, 2}, {2, 2}});
  x = Dense("dense", Features(*builder().Dropout("dropout", x, 0.5f)), 10);
  Graph graph = Narrowed(*builder().Activate("relu", x, Activation::kRelu), NarrowReach::kDense);
  ASSERT_TRUE(AddGradients(graph, graph.loss(), {}).ok());
  EXPECT_THAT(NarrowOf(graph),
              ElementsAre("conv1", "conv2", "dropout", "flat", "gradients/dense/input", "gradients/flat/input", "gradients/dropout/input",
                          "gradients/conv2/epilogue", "gradients/conv2/input", "gradients/conv1/epilogue"));
}

TEST_F(NarrowValuesTest, UpToADenseLayerPooledValuesOfOtherReadersStayF32WithTheirGradients) {
  const Value x = *builder().MaxPool("pool1", Conv("conv1", trial_.Input("x", {2, 8, 8, 2}), 8), {{2, 2}, {2, 2}});
  Graph graph = Narrowed(Features(*builder().AvgPool("average", x, {{2, 2}, {2, 2}})), NarrowReach::kDense);
  ASSERT_TRUE(AddGradients(graph, graph.loss(), {}).ok());
  EXPECT_THAT(NarrowOf(graph), IsEmpty());
}

TEST_F(NarrowValuesTest, UpToADenseLayerAnOddNumberOfFeaturesOrANameKeepsF32) {
  const Value odd = Dense("dense1", Features(Conv("conv1", trial_.Input("x", {2, 3, 3, 2}), 7)), 4);
  const Value named = Conv("conv2", trial_.Input("y", {2, 4, 4, 2}), 8);
  ASSERT_TRUE(builder().Output("features", named).ok());
  const Value flat = *builder().Flatten("flat2", named);
  EXPECT_THAT(NarrowOf(Narrowed(*builder().Add("sum", std::array{odd, Dense("dense2", flat, 4)}), NarrowReach::kDense)), IsEmpty());
}

}  // namespace
}  // namespace trainyard::engine
