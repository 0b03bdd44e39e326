#include "trainer/ops/elementwise.h"

#include <gtest/gtest.h>

#include "trainer/backend/reference/trial.h"
#include "trainer/ops/test_gradients.h"

namespace trainyard::engine {
namespace {

TEST(Bias, GradientsEqualNumericDifferences) {
  Trial trial;
  const Value x = trial.Input("x", {2, 3, 2, 4});
  trial.MeanSquaredLoss(*trial.builder().Bias("bias", x, trial.Parameter("bias/bias", {4})));
  ExpectRightGradients(trial);
}

TEST(Bias, OtherNumberOfChannelsIsAnError) {
  Trial trial;
  const auto y = trial.builder().Bias("conv1/bias_add", trial.Input("x", {2, 4}), trial.Parameter("conv1/bias", {3}));
  EXPECT_EQ(y.status().message(), "layer 'conv1/bias_add': bias has shape [3], expected [channels] [4]");
}

class Activations : public testing::TestWithParam<Activation> {};

TEST_P(Activations, GradientsEqualNumericDifferences) {
  Trial trial;
  const Value x = trial.Input("x", {3, 5});
  trial.MeanSquaredLoss(*trial.builder().Activate("activation", x, GetParam()));
  ExpectRightGradients(trial);
}

std::vector<Activation> AllActivations() {
  std::vector<Activation> all;
  VisitActivations([&]<Activation kActivation>() { all.push_back(kActivation); });
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Activations, testing::ValuesIn(AllActivations()),
                         [](const auto& info) { return std::string(ActivationName(info.param)); });

TEST(Add, GradientsEqualNumericDifferences) {
  Trial trial;
  const Value x = trial.Input("x", {2, 3});
  const Value dense = *trial.builder().Dense("dense", x, trial.Parameter("dense/kernel", {3, 3}));
  const Value terms[] = {x, dense, x};
  trial.MeanSquaredLoss(*trial.builder().Add("sum", terms));
  ExpectRightGradients(trial);
}

TEST(Add, OfDifferentShapesIsAnError) {
  Trial trial;
  const Value terms[] = {trial.Input("a", {2, 3}), trial.Input("b", {2, 4})};
  EXPECT_EQ(trial.builder().Add("sum", terms).status().message(),
            "layer 'sum': input 0 has shape [2, 3] and input 1 has [2, 4], expected the same");
  EXPECT_EQ(trial.builder().Add("sum", std::span(terms, 1)).status().message(), "layer 'sum': found 1 inputs, expected two or more");
}

TEST(Reshape, GradientsEqualNumericDifferences) {
  Trial trial;
  const Value x = trial.Input("x", {2, 3, 2, 1});
  const Value flat = *trial.builder().Flatten("flat", x);
  EXPECT_EQ(trial.builder().spec(flat).shape, Shape({2, 6}));
  const Value dense = *trial.builder().Dense("dense", flat, trial.Parameter("dense/kernel", {6, 4}));
  trial.MeanSquaredLoss(*trial.builder().Reshape("square", dense, {2, 2, 2}));
  ExpectRightGradients(trial);
}

TEST(Reshape, ToAnotherNumberOfElementsOrBatchIsAnError) {
  Trial trial;
  const Value x = trial.Input("x", {2, 6});
  EXPECT_EQ(trial.builder().Reshape("r", x, {2, 5}).status().message(),
            "layer 'r': input of shape [2, 6] has 12 elements, the new shape [2, 5] has 10, expected the same number");
  EXPECT_EQ(trial.builder().Reshape("r", x, {3, 4}).status().message(),
            "layer 'r': the new shape [3, 4] must keep the input's batch of 2 as its first extent");
  EXPECT_EQ(trial.builder().Reshape("r", x, {2, -6}).status().message(),
            "layer 'r': shape [2, -6] has an extent of -6, expected at least 1");
}

}  // namespace
}  // namespace trainyard::engine
