#include "trainer/ops/batch_norm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/ops/fuse.h"
#include "trainer/ops/gradient.h"

namespace trainyard::engine {
namespace {

using ::testing::FloatNear;
using ::testing::HasSubstr;

BatchNormParameters Parameters(Trial& trial, int64_t channels) {
  return {.gamma = trial.Parameter("gamma", {channels}),
          .beta = trial.Parameter("beta", {channels}),
          .moving_mean = trial.Parameter("moving_mean", {channels}, /*trainable=*/false),
          .moving_variance = trial.Parameter("moving_variance", {channels}, /*trainable=*/false)};
}

class BatchNorms : public testing::TestWithParam<Shape> {};

TEST_P(BatchNorms, GradientsEqualNumericDifferences) {
  Trial trial;
  const Value x = trial.Input("x", GetParam());
  const Value y = *trial.builder().BatchNorm("norm", x, Parameters(trial, GetParam()[-1]), 0.9f, 1e-3f);
  EXPECT_EQ(trial.builder().spec(y), trial.builder().spec(x));
  trial.MeanSquaredLoss(*trial.builder().Activate("tanh", y, Activation::kTanh));
  const auto error = trial.CheckGradients({.inputs = {"x"}});
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_LT(error->difference, 1e-5) << error->where;
}

INSTANTIATE_TEST_SUITE_P(Shapes, BatchNorms, testing::Values(Shape{3, 4, 5, 2}, Shape{7, 3}, Shape{4, 3, 2}, Shape{2, 1, 1, 4}),
                         [](const auto& info) { return "Rank" + std::to_string(info.param.rank()) + "Of" + std::to_string(info.index); });

TEST(BatchNorm, GradientTakesInThatOfAnotherReader) {
  Trial trial;
  GraphBuilder& builder = trial.builder();
  const Value x = trial.Input("x", {5, 2, 3, 4});
  const Value y = *builder.BatchNorm("norm", x, Parameters(trial, 4), 0.9f, 1e-3f);
  const Value terms[] = {x, *builder.Activate("tanh", y, Activation::kTanh)};
  trial.MeanSquaredLoss(*builder.Add("residual", terms));
  Graph graph = builder.graph();
  ASSERT_TRUE(AddGradients(graph, graph.loss(), {.inputs = {"x"}}).ok());
  EXPECT_EQ(OpText(graph.node(graph.Find("gradients/norm/input")).op), "add");
  EXPECT_LT(graph.Find("gradients/x/sum0"), 0);
  const auto error = trial.CheckGradients({.inputs = {"x"}});
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_LT(error->difference, 1e-5) << error->where;
}

TEST(BatchNorm, TakesAReluInAndComputesTheSame) {
  Trial trial;
  const Value x = trial.Input("x", {6, 3, 3, 4});
  const Value first = *trial.builder().Conv2d("conv1", x, trial.Parameter("conv1/kernel", {1, 1, 4, 3}));
  const BatchNormParameters parameters = Parameters(trial, 3);
  const Value y = *trial.builder().BatchNorm("norm", first, parameters, 0.9f, 1e-3f);
  const Value active = *trial.builder().Activate("relu", y, Activation::kRelu);
  ASSERT_TRUE(trial.builder().NextValue(parameters.moving_mean, {y.node, 1}).ok());
  ASSERT_TRUE(trial.builder().NextValue(parameters.moving_variance, {y.node, 2}).ok());
  trial.MeanSquaredLoss(*trial.builder().Conv2d("conv2", active, trial.Parameter("conv2/kernel", {1, 1, 3, 2})));
  const Graph fused = FuseEpilogues(trial.builder().graph());
  EXPECT_LT(fused.Find("relu"), 0);
  EXPECT_EQ(OpText(fused.node(fused.Find("norm")).op), "momentum 0.9 epsilon 0.001 + relu");
  const std::unique_ptr<Backend> backend = MakeReferenceBackend(DType::kF64);
  EXPECT_LT(LargestDifference(*trial.Run(*backend, true), *trial.Run(*backend, false)), 1e-12);
}

TEST(BatchNorm, KeepsAReluWhoseInputIsReadTwice) {
  Trial trial;
  const Value y = *trial.builder().BatchNorm("norm", trial.Input("x", {6, 3}), Parameters(trial, 3), 0.9f, 1e-3f);
  const Value terms[] = {*trial.builder().Activate("relu", y, Activation::kRelu), y};
  trial.MeanSquaredLoss(*trial.builder().Add("sum", terms));
  EXPECT_GE(FuseEpilogues(trial.builder().graph()).Find("relu"), 0);
}

// Four samples of one channel, 1 3 5 7: mean 4, variance 5. Moving mean 2, moving variance 9.
class OneChannel : public testing::Test {
 protected:
  OneChannel() {
    const Value x = *builder_.Input("x", {4, 1});
    const BatchNormParameters parameters = {.gamma = *builder_.Parameter("gamma", {1}),
                                            .beta = *builder_.Parameter("beta", {1}),
                                            .moving_mean = *builder_.Parameter("moving_mean", {1}, /*trainable=*/false),
                                            .moving_variance = *builder_.Parameter("moving_variance", {1}, /*trainable=*/false)};
    const Value y = *builder_.BatchNorm("norm", x, parameters, 0.75f, 1e-6f);
    EXPECT_TRUE(builder_.NextValue(parameters.moving_mean, {y.node, 1}).ok());
    EXPECT_TRUE(builder_.NextValue(parameters.moving_variance, {y.node, 2}).ok());
    EXPECT_TRUE(builder_.Output("y", y).ok());
    executor_ = *Executor::Create(std::move(builder_).Build(), *backend_);
    const auto specs = executor_->graph().parameters();
    parameters_ = ParameterSet({specs.begin(), specs.end()});
    next_ = ParameterSet({specs.begin(), specs.end()});
    const float values[] = {3.0f, 10.0f, 2.0f, 9.0f};
    for (int key = 0; key < 4; ++key) parameters_.values(key)[0] = values[key];
  }

  std::vector<float> Run(bool training) {
    std::vector<float> x = {1, 3, 5, 7};
    const Feed feed{"x", {DType::kF32, {4, 1}, x.data()}};
    EXPECT_TRUE(executor_->Run({.training = training}, std::span(&feed, 1), parameters_, &next_, nullptr).ok());
    std::vector<float> y(4);
    EXPECT_TRUE(executor_->Fetch("y", {DType::kF32, {4, 1}, y.data()}).ok());
    return y;
  }

  GraphBuilder builder_;
  std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
  std::unique_ptr<Executor> executor_;
  ParameterSet parameters_;
  ParameterSet next_;
};

TEST_F(OneChannel, TrainingUsesTheBatchAndMovesTheStatistics) {
  const float unit = 3.0f / std::sqrt(5.0f);
  EXPECT_THAT(Run(/*training=*/true), testing::Pointwise(FloatNear(1e-5f), {10 - 3 * unit, 10 - unit, 10 + unit, 10 + 3 * unit}));
  EXPECT_FLOAT_EQ(next_.values(2)[0], 0.75f * 2 + 0.25f * 4);
  EXPECT_FLOAT_EQ(next_.values(3)[0], 0.75f * 9 + 0.25f * 5);
}

TEST_F(OneChannel, EvaluationUsesTheMovingStatisticsAndLeavesThem) {
  EXPECT_THAT(Run(/*training=*/false), testing::Pointwise(FloatNear(1e-5f), {9.0f, 11.0f, 13.0f, 15.0f}));
  EXPECT_EQ(next_.values(2)[0], 2.0f);
  EXPECT_EQ(next_.values(3)[0], 9.0f);
}

TEST(BatchNorm, WrongShapesAndNumbersAreErrorsThatNameTheLayer) {
  Trial trial;
  const Value x = trial.Input("x", {4, 7});
  const BatchNormParameters right = Parameters(trial, 7);
  GraphBuilder& builder = trial.builder();
  EXPECT_EQ(builder.BatchNorm("norm", x, right, 1.0f, 1e-3f).status().message(),
            "layer 'norm': momentum is 1, expected a number of at least 0 and below 1");
  EXPECT_EQ(builder.BatchNorm("norm", x, right, 0.9f, 0.0f).status().message(), "layer 'norm': epsilon is 0, expected a number above 0");
  EXPECT_FALSE(builder.BatchNorm("norm", x, right, 0.9f, std::numeric_limits<float>::quiet_NaN()).ok());
  BatchNormParameters wrong = right;
  wrong.beta = trial.Parameter("short", {6});
  EXPECT_THAT(builder.BatchNorm("norm", x, wrong, 0.9f, 1e-3f).status().message(), HasSubstr("layer 'norm': beta has shape [6]"));
  EXPECT_TRUE(builder.BatchNorm("norm", x, right, 0.9f, 1e-3f).ok());
}

}  // namespace
}  // namespace trainyard::engine
