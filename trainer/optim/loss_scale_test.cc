#include "trainer/optim/loss_scale.h"

#include <gtest/gtest.h>

namespace trainyard::engine {
namespace {

TEST(LossScale, BeginsAsGradScalerDoes) {
  LossScale scale;
  EXPECT_EQ(scale.value(), 65536);
  for (int step = 0; step < 1999; ++step) scale.OnGoodStep();
  EXPECT_EQ(scale.value(), 65536);
  scale.OnGoodStep();
  EXPECT_EQ(scale.value(), 131072);
  for (int step = 0; step < 1999; ++step) scale.OnGoodStep();
  EXPECT_EQ(scale.value(), 131072) << "good steps count anew";
  scale.OnGoodStep();
  EXPECT_EQ(scale.value(), 262144);
}

TEST(LossScale, AnOverflowHalvesItAndGoodStepsCountAnew) {
  LossScale scale({.first = 8, .steps_to_double = 3});
  for (int step = 0; step < 2; ++step) scale.OnGoodStep();
  scale.OnOverflow();
  EXPECT_EQ(scale.value(), 4);
  EXPECT_EQ(scale.overflows(), 1);
  for (int step = 0; step < 2; ++step) scale.OnGoodStep();
  EXPECT_EQ(scale.value(), 4);
  scale.OnGoodStep();
  EXPECT_EQ(scale.value(), 8);
}

TEST(LossScale, AStepThatIsNotFiniteKeepsItAndGoodStepsCountAnew) {
  LossScale scale({.first = 8, .steps_to_double = 2});
  scale.OnGoodStep();
  scale.OnNotFinite();
  scale.OnGoodStep();
  EXPECT_EQ(scale.value(), 8);
  EXPECT_EQ(scale.overflows(), 0);
}

TEST(LossScale, StaysWithinItsBounds) {
  LossScale scale({.first = 2, .steps_to_double = 1});
  for (int step = 0; step < 3; ++step) scale.OnOverflow();
  EXPECT_EQ(scale.value(), 1);
  for (int step = 0; step < 40; ++step) scale.OnGoodStep();
  EXPECT_EQ(scale.value(), kLargestLossScale);
}

TEST(LossScale, GoesOnFromItsText) {
  LossScale scale({.steps_to_double = 4});
  scale.OnOverflow();
  for (int step = 0; step < 3; ++step) scale.OnGoodStep();
  LossScale other({.steps_to_double = 4});
  ASSERT_TRUE(other.Restore(scale.ToText()).ok());
  EXPECT_EQ(other.ToText(), "32768 3 1");
  other.OnGoodStep();
  EXPECT_EQ(other.value(), 65536);
}

TEST(LossScale, TakesTheTextsOfItsBounds) {
  LossScale scale;
  for (const char* const text : {"1 0 0", "16777216 0 0", "2 1 1"}) {
    ASSERT_TRUE(scale.Restore(text).ok()) << text;
    EXPECT_EQ(scale.ToText(), text);
  }
}

TEST(LossScale, RefusesOtherTexts) {
  LossScale scale;
  for (const char* const text : {"", "65536", "65536 1", "3 0 0", "0.5 0 0", "33554432 0 0", "8 -1 0", "8 0 -1", "8 0 0 0", "nan 0 0"}) {
    EXPECT_EQ(scale.Restore(text).code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(scale.ToText(), "65536 0 0") << text;
  }
}

}  // namespace
}  // namespace trainyard::engine
