#include "trainer/backend/cpu/lay_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "trainer/backend/reference/trial.h"
#include "trainer/ops/recurrent.h"

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;

// The batched values in order: "name panels" or "name rows".
std::vector<std::string> LayoutsOf(const Graph& graph) {
  std::vector<std::string> texts;
  for (const Node& node : graph.nodes()) {
    if (node.outputs[0].batched) texts.push_back(node.name + (node.outputs[0].row_major ? " rows" : " panels"));
  }
  return texts;
}

Value Lstm(Trial& trial, const std::string& name, Value x) {
  GraphBuilder& builder = trial.builder();
  const Value z = *builder.Dense(name + "/inputs", x, trial.Parameter(name + "/kernel", {builder.spec(x).shape[-1], 12}));
  const Value biased = *builder.Bias(name + "/bias_add", z, trial.Parameter(name + "/bias", {12}));
  return *builder.Recurrent(name, {.cell = Cell::kLstm}, {biased, trial.Parameter(name + "/recurrent_kernel", {3, 12})});
}

TEST(LayOutTest, ImagesStayInPanels) {
  Trial trial;
  const Value y = *trial.builder().Conv2d("conv", trial.Input("x", {2, 4, 4, 1}), trial.Parameter("kernel", {3, 3, 1, 2}));
  trial.MeanSquaredLoss(*trial.builder().Flatten("flat", y));
  EXPECT_THAT(LayoutsOf(LayOut(trial.builder().graph())), ElementsAre("x panels", "conv panels", "flat panels", "target panels"));
}

TEST(LayOutTest, TokensAndWhatIsMadeOfThemLieInRowsAndSoDoTheirLabels) {
  Trial trial;
  GraphBuilder& builder = trial.builder();
  const Value words = *builder.Embedding("words", trial.Labels("ids", {2, 5}, 7), trial.Parameter("table", {7, 4}));
  const Value scores = *builder.Dense("scores", words, trial.Parameter("kernel", {4, 7}));
  trial.Loss(*builder.SoftmaxCrossEntropy("loss", scores, trial.Labels("labels", {2, 5}, 7)));
  EXPECT_THAT(LayoutsOf(LayOut(builder.graph())), ElementsAre("ids rows", "words rows", "scores rows", "labels rows"));
}

TEST(LayOutTest, TheProductBeforeARecurrentLayerIsInRowsAndTheLayerBeforeItIsNot) {
  Trial trial;
  const Value y = *trial.builder().Dense("dense", trial.Input("x", {2, 5, 4}), trial.Parameter("kernel", {4, 6}));
  trial.MeanSquaredLoss(Lstm(trial, "lstm", y));
  EXPECT_THAT(LayoutsOf(LayOut(trial.builder().graph())), ElementsAre("x panels", "dense panels", "dense/rows rows", "lstm/inputs rows",
                                                                      "lstm/bias_add rows", "lstm rows", "target rows"));
}

TEST(LayOutTest, AnInputLiesAsAllItsReadersTakeIt) {
  Trial trial;
  const Value x = trial.Input("x", {2, 5, 4});
  trial.MeanSquaredLoss(*trial.builder().Add("sum", std::array{Lstm(trial, "a", x), Lstm(trial, "b", x)}));
  EXPECT_THAT(LayoutsOf(LayOut(trial.builder().graph())),
              ElementsAre("x rows", "a/inputs rows", "a/bias_add rows", "a rows", "b/inputs rows", "b/bias_add rows", "b rows", "sum rows",
                          "target rows"));
}

TEST(LayOutTest, AValueIsTurnedOverOnceForAllItsReaders) {
  Trial trial;
  GraphBuilder& builder = trial.builder();
  const Value x = *builder.Activate("tanh", trial.Input("x", {2, 5, 3}), Activation::kTanh);
  const Value a = Lstm(trial, "a", x);
  const Value b = Lstm(trial, "b", x);
  const Value sum = *builder.Add("sum", std::array{x, a, b});
  trial.MeanSquaredLoss(sum);
  EXPECT_THAT(LayoutsOf(LayOut(builder.graph())),
              ElementsAre("x panels", "tanh panels", "tanh/rows rows", "a/inputs rows", "a/bias_add rows", "a rows", "b/inputs rows",
                          "b/bias_add rows", "b rows", "a/panels panels", "b/panels panels", "sum panels", "target panels"));
}

TEST(LayOutTest, StatesAndWhatAStepLeavesInThemLieInRowsAndTheGraphIsOtherwiseTheSame) {
  Trial trial;
  GraphBuilder& builder = trial.builder();
  const Value z = trial.Input("z", {2, 5, 3});
  const Value h = *builder.State("h", {2, 3});
  const Value y = *builder.Recurrent("rnn", {.cell = Cell::kSimpleRnn, .initial = true}, {z, trial.Parameter("kernel", {3, 3}), h});
  ASSERT_TRUE(builder.NextState(h, {y.node, RecurrentOutputs::kLast}).ok());
  trial.MeanSquaredLoss({y.node, RecurrentOutputs::kLast});
  const Graph graph = LayOut(builder.graph());
  EXPECT_THAT(LayoutsOf(graph), ElementsAre("z rows", "h rows", "rnn rows", "target rows"));
  EXPECT_TRUE(graph.spec(graph.next_states()[0]).row_major);
  EXPECT_TRUE(graph.loss().valid());
  EXPECT_EQ(graph.parameters().size(), builder.graph().parameters().size());
  EXPECT_EQ(graph.outputs().size(), builder.graph().outputs().size());
}

}  // namespace
}  // namespace trainyard::engine
