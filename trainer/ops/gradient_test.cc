#include "trainer/ops/gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/backend/reference/trial.h"
#include "trainer/ops/test_gradients.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

TEST(AddGradients, SumsOverAllReadersOfAValueAndAllUsesOfAParameter) {
  Trial trial;
  GraphBuilder& b = trial.builder();
  const Value x = trial.Input("x", {3, 4});
  const Value w = trial.Parameter("w", {4, 4});
  const Value first = *b.Activate("tanh", *b.Dense("first", x, w), Activation::kTanh);
  const Value second = *b.Dense("second", first, w);
  const Value terms[] = {first, second, x};
  trial.MeanSquaredLoss(*b.Add("residual", terms));
  ExpectRightGradients(trial);
}

TEST(AddGradients, TwoParametersMayHaveOneGradient) {
  Trial trial;
  GraphBuilder& b = trial.builder();
  const Value x = trial.Input("x", {3, 4});
  const Value terms[] = {*b.Dense("one", x, trial.Parameter("one/kernel", {4, 2})),
                         *b.Dense("two", x, trial.Parameter("two/kernel", {4, 2}))};
  trial.MeanSquaredLoss(*b.Add("sum", terms));
  ExpectRightGradients(trial);
}

TEST(AddGradients, ComputesNothingForInputsAndFrozenParameters) {
  Trial trial;
  GraphBuilder& b = trial.builder();
  const Value x = trial.Input("x", {3, 4});
  const Value frozen = *b.Parameter("frozen", {4, 4}, /*trainable=*/false);
  const Value h = *b.Dense("first", x, frozen);
  trial.MeanSquaredLoss(*b.Dense("second", h, *b.Parameter("w", {4, 2})));
  Graph graph = b.graph();
  ASSERT_TRUE(AddGradients(graph, graph.outputs().at("loss")).ok());
  EXPECT_GE(graph.Find("gradients/second/weights"), 0);
  EXPECT_EQ(graph.Find("gradients/second/input"), -1);
  EXPECT_EQ(graph.Find("gradients/first/weights"), -1);
  ASSERT_EQ(graph.results().size(), 1u);
  EXPECT_EQ(graph.parameters()[graph.results()[0].key].name, "w");
}

TEST(AddGradients, ParameterWithoutInfluenceIsAnErrorNamingIt) {
  Trial trial;
  trial.Parameter("unused/kernel", {2});
  trial.MeanSquaredLoss(*trial.builder().Dense("dense", trial.Input("x", {3, 4}), trial.Parameter("dense/kernel", {4, 2})));
  Graph graph = trial.builder().graph();
  const absl::Status status = AddGradients(graph, graph.outputs().at("loss"));
  EXPECT_EQ(status.message(), "parameter 'unused/kernel' has no influence on the loss; remove it or mark it as not trainable");
}

TEST(AddGradients, LossThatIsNoScalarIsAnError) {
  Trial trial;
  const Value y = *trial.builder().Dense("dense", trial.Input("x", {3, 4}), trial.Parameter("dense/kernel", {4, 2}));
  Graph graph = trial.builder().graph();
  EXPECT_EQ(AddGradients(graph, y).message(), "the loss 'dense' is F32 of shape [3, 2], expected one real number (shape [])");
}

TEST(AddGradients, ThroughAMetricIsAnErrorNamingTheLayer) {
  Trial trial;
  const Value y = *trial.builder().Dense("dense", trial.Input("x", {3, 4}), trial.Parameter("dense/kernel", {4, 2}));
  const Value correct = *trial.builder().CorrectCount("correct", y, trial.Labels("labels", {3}, 2));
  Graph graph = trial.builder().graph();
  EXPECT_THAT(std::string(AddGradients(graph, correct).message()), HasSubstr("layer 'correct': op CorrectCount has no gradient"));
}

}  // namespace
}  // namespace trainyard::engine
