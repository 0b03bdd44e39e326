#include "trainer/ops/l2_penalty.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/backend/reference/reference_backend.h"
#include "trainer/backend/reference/trial.h"

namespace trainyard::engine {
namespace {

TEST(L2Penalty, AddsTheSquaresOfAllWeightsAndItsGradientIsTheNumericOne) {
  Trial trial;
  GraphBuilder& builder = trial.builder();
  const Value first = trial.Parameter("first", {4, 3});
  const Value second = trial.Parameter("second", {3, 2});
  const Value h = *builder.Dense("dense1", trial.Input("x", {5, 4}), first);
  const Value y = *builder.Dense("dense2", *builder.Activate("tanh", h, Activation::kTanh), second);
  const Value loss = *builder.MeanSquaredError("error", y, trial.Input("target", {5, 2}));
  ASSERT_TRUE(builder.Output("error", loss).ok());
  trial.Loss(*builder.L2Penalty("loss", loss, std::array{first, second}, 0.25f));
  const auto error = trial.CheckGradients();
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_LT(error->difference, 1e-5) << error->where;

  const ParameterSet parameters = trial.parameters();
  double squares = 0;
  for (int key = 0; key < parameters.size(); ++key) {
    for (const double value : parameters.values(key)) squares += value * value;
  }
  const std::unique_ptr<Backend> backend = MakeReferenceBackend(DType::kF64);
  const TrialResult result = *trial.Run(*backend, /*fuse=*/true);
  EXPECT_NEAR(result.outputs.at("loss")[0], result.outputs.at("error")[0] + 0.25 * squares, 1e-6);
}

TEST(L2Penalty, WrongInputsAreErrorsThatNameTheLayer) {
  Trial trial;
  GraphBuilder& builder = trial.builder();
  const Value weights = trial.Parameter("weights", {4, 3});
  const Value x = trial.Input("x", {5, 4});
  const Value loss = *builder.MeanSquaredError("error", *builder.Dense("dense", x, weights), trial.Input("target", {5, 3}));
  EXPECT_EQ(builder.L2Penalty("l2", loss, std::array{weights}, -1.0f).status().message(),
            "layer 'l2': l2 is -1, expected a number above 0");
  EXPECT_EQ(builder.L2Penalty("l2", loss, {}, 1.0f).status().message(), "layer 'l2': found no weights, expected one or more");
  EXPECT_FALSE(builder.L2Penalty("l2", weights, std::array{weights}, 1.0f).ok());
  EXPECT_FALSE(builder.L2Penalty("l2", loss, std::array{x}, 1.0f).ok());
}

}  // namespace
}  // namespace trainyard::engine
