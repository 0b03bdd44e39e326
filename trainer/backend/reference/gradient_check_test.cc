#include "trainer/backend/reference/gradient_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/backend/reference/trial.h"

namespace trainyard::engine {
namespace {

// A step across the kink of relu makes the numeric derivative differ from the right one: the check
// must see it.
TEST(CheckGradients, ReportsADifferenceAndWhereItIs) {
  Trial trial;
  trial.MeanSquaredLoss(*trial.builder().Activate("relu", trial.Input("x", {2, 2}), Activation::kRelu));
  const auto error = trial.CheckGradients({.inputs = {"x"}, .step = 0.9f});
  ASSERT_TRUE(error.ok()) << error.status();
  EXPECT_GT(error->difference, 1e-2);
  EXPECT_THAT(error->where, testing::HasSubstr("input 'x', element"));
}

TEST(CheckGradients, NeedsALoss) {
  Trial trial;
  trial.Input("x", {2, 2});
  EXPECT_EQ(trial.CheckGradients().status().message(), "the graph has no output 'loss'");
}

}  // namespace
}  // namespace trainyard::engine
