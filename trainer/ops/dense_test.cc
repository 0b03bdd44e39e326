#include "trainer/ops/dense.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/backend/reference/trial.h"
#include "trainer/ops/rules.h"

namespace trainyard::engine {
namespace {

using ::testing::HasSubstr;

TEST(Dense, GradientsEqualNumericDifferences) {
  Trial trial;
  const Value x = trial.Input("x", {3, 4});
  trial.MeanSquaredLoss(*trial.builder().Dense("dense", x, trial.Parameter("dense/kernel", {4, 5})));
  const auto error = trial.CheckGradients({.inputs = {"x"}});
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_LT(error->difference, 1e-5) << error->where;
}

TEST(Dense, AppliesToEveryStepOfASequence) {
  Trial trial;
  const Value x = trial.Input("x", {2, 3, 4});
  const Value y = *trial.builder().Dense("dense", x, trial.Parameter("dense/kernel", {4, 5}));
  EXPECT_EQ(trial.builder().spec(y).shape, Shape({2, 3, 5}));
  trial.MeanSquaredLoss(y);
  const auto error = trial.CheckGradients({.inputs = {"x"}});
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_LT(error->difference, 1e-5) << error->where;
}

TEST(Dense, KernelThatDoesNotFitIsAnErrorNamingLayerFoundAndExpected) {
  Trial trial;
  const Value x = trial.Input("x", {3, 4});
  const auto y = trial.builder().Dense("fc", x, trial.Parameter("fc/kernel", {6, 5}));
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(y.status().message(), "layer 'fc': kernel has shape [6, 5], expected [inputs, units] [4, 5]");
}

TEST(Dense, InputWithoutFeaturesIsAnError) {
  Trial trial;
  const Value x = trial.Input("x", {3});
  const auto y = trial.builder().Dense("fc", x, trial.Parameter("fc/kernel", {1, 5}));
  EXPECT_THAT(std::string(y.status().message()), HasSubstr("layer 'fc': input has shape [3], expected [batch, .., features]"));
}

TEST(Dense, CountsTwoFlopsForAMultiplyAdd) {
  Trial trial;
  const Value y = *trial.builder().Dense("fc", trial.Input("x", {3, 4}), trial.Parameter("fc/kernel", {4, 5}));
  EXPECT_EQ(Flops(trial.builder().graph(), y.node), 2 * 3 * 4 * 5);
}

}  // namespace
}  // namespace trainyard::engine
