#include "trainer/optim/lr_schedule.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

OptimizerConfig Config(LrScheduleConfig schedule) { return {.learning_rate = 0.8, .schedule = schedule}; }

TEST(LrScheduleTest, ConstantStaysWhereItIs) {
  EXPECT_DOUBLE_EQ(LearningRateAt(Config({}), 0), 0.8);
  EXPECT_DOUBLE_EQ(LearningRateAt(Config({}), 1'000'000), 0.8);
}

TEST(LrScheduleTest, AStaleGradientTakesAShareOfTheRateWhereTheRuleSaysSo) {
  OptimizerConfig config = Config({});
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 3, 7), 0.8);
  config.staleness = StalenessRule::kAdapt;
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 3, 0), 0.8);
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 3, 7), 0.1);
}

TEST(LrScheduleTest, StepFallsOnlyAtWholePeriods) {
  const OptimizerConfig config = Config({.kind = LrScheduleConfig::Kind::kStep, .decay_steps = 10, .decay_rate = 0.5});
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 9), 0.8);
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 10), 0.4);
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 25), 0.2);
}

TEST(LrScheduleTest, ExponentialFallsAtEveryStep) {
  const OptimizerConfig config = Config({.kind = LrScheduleConfig::Kind::kExponential, .decay_steps = 10, .decay_rate = 0.25});
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 5), 0.4);
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 10), 0.2);
}

TEST(LrScheduleTest, CosineEndsAtItsMinimumAndStaysThere) {
  const OptimizerConfig config = Config({.kind = LrScheduleConfig::Kind::kCosine, .decay_steps = 100, .minimum = 0.2});
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 0), 0.8);
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 50), 0.5);
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 100), 0.2);
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 500), 0.2);
}

TEST(LrScheduleTest, HoldKeepsTheRateAndThenTheScheduleStartsFromItsBeginning) {
  const OptimizerConfig config =
      Config({.kind = LrScheduleConfig::Kind::kStep, .decay_steps = 10, .decay_rate = 0.5, .hold_steps = 30, .warmup_steps = 4});
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 3), 0.8);
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 43), 0.8);
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 44), 0.4);
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 54), 0.2);
}

TEST(LrScheduleTest, WarmUpRisesInALineAndThenTheScheduleStartsFromItsBeginning) {
  const OptimizerConfig config = Config({.kind = LrScheduleConfig::Kind::kStep, .decay_steps = 10, .decay_rate = 0.5, .warmup_steps = 4});
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 0), 0.2);
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 3), 0.8);
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 13), 0.8);
  EXPECT_DOUBLE_EQ(LearningRateAt(config, 14), 0.4);
}

}  // namespace
}  // namespace trainyard::engine
