#include "trainer/ops/fuse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/ops/gradient.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> NodeTexts(const Graph& graph) {
  std::vector<std::string> texts;
  for (const Node& node : graph.nodes()) {
    if (std::holds_alternative<ParameterOp>(node.op)) continue;
    texts.push_back(node.name + ": " + OpText(node.op));
  }
  return texts;
}

// conv1 (bias, tanh, then pool), conv2 (pool, then relu), dense1 (bias, sigmoid), dense2,
// cross-entropy.
class SmallNetwork : public testing::Test {
 protected:
  SmallNetwork() {
    GraphBuilder& b = trial_.builder();
    const Value x = trial_.Input("x", {3, 10, 10, 2});
    Value h = *b.Conv2d("conv1", x, trial_.Parameter("conv1/kernel", {3, 3, 2, 3}));
    h = *b.Bias("conv1/bias_add", h, trial_.Parameter("conv1/bias", {3}));
    h = *b.Activate("conv1/tanh", h, Activation::kTanh);
    h = *b.MaxPool("pool1", h, {{2, 2}, {2, 2}});
    h = *b.Conv2d("conv2", h, trial_.Parameter("conv2/kernel", {2, 2, 3, 4}), {1, 1}, Padding::kSame);
    h = *b.MaxPool("pool2", h, {{2, 2}, {2, 2}, Padding::kSame});
    h = *b.Activate("relu2", h, Activation::kRelu);
    h = *b.Flatten("flat", h);
    h = *b.Dense("dense1", h, trial_.Parameter("dense1/kernel", {16, 6}));
    h = *b.Bias("dense1/bias_add", h, trial_.Parameter("dense1/bias", {6}));
    h = *b.Activate("dense1/sigmoid", h, Activation::kSigmoid);
    h = *b.Dense("dense2", h, trial_.Parameter("dense2/kernel", {6, 4}));
    EXPECT_TRUE(b.Output("logits", h).ok());
    trial_.Loss(*b.SoftmaxCrossEntropy("loss", h, trial_.Labels("labels", {3}, 4)));
  }

  Trial trial_;
};

TEST_F(SmallNetwork, EveryLayerBecomesOneNode) {
  EXPECT_THAT(NodeTexts(FuseEpilogues(trial_.builder().graph())),
              ElementsAre("x: ", "conv1: 3x3 stride 1x1 valid + bias + max-pool 2x2 stride 2x2 valid + tanh",
                          "conv2: 2x2 stride 1x1 same + max-pool 2x2 stride 2x2 same + relu", "flat: ", "dense1: bias + sigmoid",
                          "dense2: ", "labels: ", "loss: "));
}

TEST_F(SmallNetwork, GradientsEqualNumericDifferencesWithAndWithoutFusion) {
  for (bool fuse : {false, true}) {
    const auto error = trial_.CheckGradients({.inputs = {"x"}, .fuse = fuse, .step = 1e-4f});
    ASSERT_TRUE(error.ok()) << error.status();
    EXPECT_LT(error->difference, 1e-5) << (fuse ? "fused: " : "not fused: ") << error->where;
  }
}

TEST_F(SmallNetwork, ComputesTheSameWithAndWithoutFusion) {
  const std::unique_ptr<Backend> f32 = MakeReferenceBackend();
  const std::unique_ptr<Backend> f64 = MakeReferenceBackend(DType::kF64);
  EXPECT_LT(LargestDifference(*trial_.Run(*f32, true), *trial_.Run(*f32, false)), 1e-6);
  EXPECT_LT(LargestDifference(*trial_.Run(*f64, true), *trial_.Run(*f64, false)), 1e-12);
  EXPECT_LT(LargestDifference(*trial_.Run(*f32, true), *trial_.Run(*f64, true)), 1e-5);
}

TEST_F(SmallNetwork, BackwardOfAFusedLayerIsOneNodeForEpilogueOneForWeightsOneForInput) {
  Graph graph = FuseEpilogues(trial_.builder().graph());
  const size_t forward = graph.nodes().size();
  ASSERT_TRUE(AddGradients(graph, graph.outputs().at("loss")).ok());
  std::vector<std::string> names;
  for (const Node& node : graph.nodes().subspan(forward)) names.push_back(node.name);
  EXPECT_THAT(names, ElementsAre("gradients/loss", "gradients/loss/input", "gradients/dense2/weights", "gradients/dense2/input",
                                 "gradients/dense1/epilogue", "gradients/dense1/weights", "gradients/dense1/input", "gradients/flat/input",
                                 "gradients/conv2/epilogue", "gradients/conv2/weights", "gradients/conv2/input", "gradients/conv1/epilogue",
                                 "gradients/conv1/weights"));
}

TEST(FuseEpilogues, KeepsAValueThatIsANamedOutput) {
  Trial trial;
  const Value conv = *trial.builder().Conv2d("conv", trial.Input("x", {1, 4, 4, 1}), trial.Parameter("conv/kernel", {3, 3, 1, 2}));
  ASSERT_TRUE(trial.builder().Output("features", conv).ok());
  trial.MeanSquaredLoss(*trial.builder().Activate("tanh", conv, Activation::kTanh));
  EXPECT_GE(FuseEpilogues(trial.builder().graph()).Find("tanh"), 0);
}

TEST(FuseEpilogues, KeepsAValueThatTwoNodesRead) {
  Trial trial;
  const Value dense = *trial.builder().Dense("dense", trial.Input("x", {2, 4}), trial.Parameter("dense/kernel", {4, 4}));
  const Value terms[] = {*trial.builder().Activate("tanh", dense, Activation::kTanh), dense};
  trial.MeanSquaredLoss(*trial.builder().Add("sum", terms));
  EXPECT_GE(FuseEpilogues(trial.builder().graph()).Find("tanh"), 0);
}

TEST(FuseEpilogues, TakesOneActivationAndOnePoolOnly) {
  Trial trial;
  Value h = *trial.builder().Conv2d("conv", trial.Input("x", {1, 9, 9, 1}), trial.Parameter("conv/kernel", {2, 2, 1, 2}));
  h = *trial.builder().Activate("tanh", h, Activation::kTanh);
  h = *trial.builder().MaxPool("pool", h, {{2, 2}, {2, 2}});
  h = *trial.builder().Activate("relu", h, Activation::kRelu);
  trial.MeanSquaredLoss(*trial.builder().MaxPool("pool_again", h, {{2, 2}, {2, 2}}));
  EXPECT_THAT(NodeTexts(FuseEpilogues(trial.builder().graph())),
              ElementsAre("x: ", "conv: 2x2 stride 1x1 valid + max-pool 2x2 stride 2x2 valid + tanh", "relu: relu",
                          "pool_again: 2x2 stride 2x2 valid", "target: ", "loss: "));
  const std::unique_ptr<Backend> backend = MakeReferenceBackend(DType::kF64);
  EXPECT_LT(LargestDifference(*trial.Run(*backend, true), *trial.Run(*backend, false)), 1e-12);
}

TEST(FuseEpilogues, OfAFusedGraphChangesNothing) {
  Trial trial;
  const Value dense = *trial.builder().Dense("dense", trial.Input("x", {2, 4}), trial.Parameter("dense/kernel", {4, 4}));
  trial.MeanSquaredLoss(*trial.builder().Activate("tanh", dense, Activation::kTanh));
  const Graph once = FuseEpilogues(trial.builder().graph());
  EXPECT_EQ(NodeTexts(FuseEpilogues(once)), NodeTexts(once));
}

}  // namespace
}  // namespace trainyard::engine
