#include "trainer/report/loss_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace trainyard::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

LossWatch After(std::initializer_list<double> losses, double then, int steps) {
  LossWatch watch;
  for (const double loss : losses) watch.Add(loss, loss);
  for (int i = 0; i < steps; ++i) watch.Add(then, then);
  return watch;
}

TEST(LossWatchTest, ALossThatFallsOrStaysIsFine) {
  EXPECT_FALSE(After({}, 2.3, 0).far_above());
  EXPECT_FALSE(After({}, 2.3, 100).far_above());
  EXPECT_FALSE(After({2.3, 2.2}, 0.1, 100).far_above());
}

TEST(LossWatchTest, TheStartIsTheMeanOfTheFirstLosses) {
  EXPECT_FALSE(LossWatch().start());
  EXPECT_DOUBLE_EQ(*After({2, 4}, 0, 0).start(), 3);
  EXPECT_DOUBLE_EQ(*After({800, 1200}, 0, 0).start(), 1000);
  EXPECT_DOUBLE_EQ(*After({11}, 1, 50).start(), 2);
}

TEST(LossWatchTest, MoreThanTwiceTheStartIsFarAboveItAndSaid) {
  const LossWatch watch = After({2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 62.1, 11);
  EXPECT_TRUE(watch.far_above());
  EXPECT_THAT(watch.Text(0), AllOf(HasSubstr("the loss is 62.1, far above 2 at its start"), Not(HasSubstr("updates old"))));
  EXPECT_THAT(watch.Text(2.96), HasSubstr("gradients are 3.0 updates old"));
  EXPECT_FALSE(After({2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, 3.9, 50).far_above());
}

TEST(LossWatchTest, ATrainingThatDivergesWithinTheFirstStepsHasItsFirstLossForAStart) {
  const LossWatch watch = After({3.3, 80, 4e3, 1e6}, 1e14, 30);
  EXPECT_DOUBLE_EQ(*watch.start(), 3.3);
  EXPECT_TRUE(watch.far_above());
  EXPECT_DOUBLE_EQ(*After({0.5, 80}, 1e6, 30).start(), 0.5);
}

TEST(LossWatchTest, ATrainingThatGoesOnKeepsItsStart) {
  LossWatch watch = After({2, 4}, 3, 5);
  EXPECT_FALSE(watch.settled_start());
  for (int i = 0; i < 3; ++i) watch.Add(3, 3);
  ASSERT_TRUE(watch.settled_start());
  LossWatch next;
  next.GoOnFrom(*watch.settled_start());
  EXPECT_DOUBLE_EQ(*next.start(), 3);
  for (int i = 0; i < 50; ++i) next.Add(0.001, 0.001);
  for (int i = 0; i < 50; ++i) next.Add(0.5, 0.5);
  EXPECT_FALSE(next.far_above()) << "far above 0.001, but not above its start";
  for (int i = 0; i < 50; ++i) next.Add(9, 9);
  EXPECT_TRUE(next.far_above());
  EXPECT_DOUBLE_EQ(*next.start(), 3);
}

TEST(LossWatchTest, ASmallLossIsFineWhateverTheStart) {
  EXPECT_FALSE(After({1e-7, 1e-7}, 4e-7, 50).far_above()) << "a training that goes on from its end";
  EXPECT_TRUE(After({1e-7, 1e-7, 1e-7, 1e-7, 1e-7, 1e-7, 1e-7, 1e-7, 1e-7, 1e-7}, 0.5, 50).far_above());
}

TEST(LossWatchTest, TheFirstStepsAreNoVerdictAndNumbersThatAreNoneAreLeftOut) {
  EXPECT_FALSE(After({1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 50, 10).far_above());
  LossWatch watch = After({1, 1}, 1, 30);
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  watch.Add(kNaN, 1);
  EXPECT_FALSE(watch.far_above());
  EXPECT_DOUBLE_EQ(*watch.start(), 1);
  LossWatch none;
  none.Add(kNaN, 1);
  none.Add(1, kNaN);
  EXPECT_FALSE(none.start());
}

}  // namespace
}  // namespace trainyard::engine
