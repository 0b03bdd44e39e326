#include "trainer/ops/softmax.h"

#include <gtest/gtest.h>

#include <cmath>

#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"
#include "trainer/ops/mean_squared_error.h"
#include "trainer/ops/test_gradients.h"

namespace trainyard::engine {
namespace {

TEST(Softmax, GradientsEqualNumericDifferences) {
  Trial trial;
  trial.MeanSquaredLoss(*trial.builder().Softmax("softmax", trial.Input("x", {3, 4})));
  ExpectRightGradients(trial);
}

TEST(SoftmaxCrossEntropy, GradientsEqualNumericDifferences) {
  Trial trial;
  const Value x = trial.Input("x", {5, 4});
  trial.Loss(*trial.builder().SoftmaxCrossEntropy("loss", x, trial.Labels("labels", {5}, 4)));
  ExpectRightGradients(trial);
}

TEST(SoftmaxCrossEntropy, OfASequenceIsTheMeanOverItsSteps) {
  Trial trial;
  const Value x = trial.Input("x", {2, 3, 4});
  trial.Loss(*trial.builder().SoftmaxCrossEntropy("loss", x, trial.Labels("labels", {2, 3}, 4)));
  ExpectRightGradients(trial);
}

// Logits far beyond what exp() can take.
TEST(SoftmaxCrossEntropy, OfHugeLogitsIsFinite) {
  GraphBuilder builder;
  const Value x = *builder.Input("x", {1, 3});
  const Value labels = *builder.IntegerInput("labels", {1}, 3);
  ASSERT_TRUE(builder.Output("loss", *builder.SoftmaxCrossEntropy("loss", x, labels)).ok());
  ASSERT_TRUE(builder.Output("correct", *builder.CorrectCount("correct", x, labels)).ok());
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const auto executor = Executor::Create(std::move(builder).Build(), *backend);
  ASSERT_TRUE(executor.ok()) << executor.status();
  std::array<float, 3> logits = {1000, 0, -1000};
  std::array<int32_t, 1> label = {1};
  const Feed feeds[] = {{"x", {DType::kF32, {1, 3}, logits.data()}}, {"labels", {DType::kI32, {1}, label.data()}}};
  ASSERT_TRUE((*executor)->Run({}, feeds, {}, nullptr, nullptr).ok());
  EXPECT_DOUBLE_EQ(*(*executor)->Scalar("loss"), 1000.0);
  EXPECT_EQ(*(*executor)->Scalar("correct"), 0.0);
  label[0] = 0;
  ASSERT_TRUE((*executor)->Run({}, feeds, {}, nullptr, nullptr).ok());
  EXPECT_DOUBLE_EQ(*(*executor)->Scalar("loss"), 0.0);
  EXPECT_EQ(*(*executor)->Scalar("correct"), 1.0);
}

TEST(SoftmaxCrossEntropy, LabelsOfAnotherShapeAreAnError) {
  Trial trial;
  const Value x = trial.Input("x", {5, 4});
  EXPECT_EQ(trial.builder().SoftmaxCrossEntropy("loss", x, trial.Labels("labels", {5, 4}, 4)).status().message(),
            "layer 'loss': labels are I32 of shape [5, 4], expected I32 of shape [5]: one for each row of the input [5, 4]");
  EXPECT_EQ(trial.builder().CorrectCount("correct", x, trial.Input("real", {5})).status().message(),
            "layer 'correct': labels are F32 of shape [5], expected I32 of shape [5]: one for each row of the input [5, 4]");
}

TEST(MeanSquaredError, GradientsEqualNumericDifferencesOnBothSides) {
  Trial trial;
  const Value x = trial.Input("x", {3, 4});
  const Value other = *trial.builder().Dense("dense", x, trial.Parameter("dense/kernel", {4, 4}));
  trial.Loss(*trial.builder().MeanSquaredError("loss", x, other));
  ExpectRightGradients(trial);
}

TEST(MeanSquaredError, OfDifferentShapesIsAnError) {
  Trial trial;
  EXPECT_EQ(trial.builder().MeanSquaredError("loss", trial.Input("a", {3, 4}), trial.Input("b", {3, 5})).status().message(),
            "layer 'loss': prediction has shape [3, 4] and target has [3, 5], expected the same");
}

}  // namespace
}  // namespace trainyard::engine
