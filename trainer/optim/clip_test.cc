#include "trainer/optim/clip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;

ParameterSet Gradients(std::vector<float> a, std::vector<float> b) {
  ParameterSet set({{.name = "a", .shape = {static_cast<int64_t>(a.size())}}, {.name = "b", .shape = {static_cast<int64_t>(b.size())}}});
  std::copy(a.begin(), a.end(), set.values(0).begin());
  std::copy(b.begin(), b.end(), set.values(1).begin());
  return set;
}

TEST(ClipTest, ScalesAllTensorsByOneFactorWhenTheirCommonNormIsTooLarge) {
  ParameterSet gradients = Gradients({6.0F}, {0.0F, 8.0F});
  EXPECT_DOUBLE_EQ(ClipByGlobalNorm(5.0, gradients), 10.0);
  EXPECT_THAT(gradients.values(0), ElementsAre(3.0F));
  EXPECT_THAT(gradients.values(1), ElementsAre(0.0F, 4.0F));
}

TEST(ClipTest, LeavesGradientsWithinTheNormAlone) {
  ParameterSet gradients = Gradients({3.0F}, {4.0F});
  EXPECT_DOUBLE_EQ(ClipByGlobalNorm(5.0, gradients), 5.0);
  EXPECT_THAT(gradients.values(0), ElementsAre(3.0F));
}

TEST(ClipTest, CountsEveryElementOfATensorThatIsNoMultipleOfTheLanes) {
  ParameterSet gradients = Gradients(std::vector<float>(37, 1.0F), {});
  EXPECT_DOUBLE_EQ(ClipByGlobalNorm(100.0, gradients), std::sqrt(37.0));
}

TEST(ClipTest, SquaresThatOverflowAFloatDoNotOverflowTheNorm) {
  ParameterSet gradients = Gradients({3e30F}, {4e30F});
  EXPECT_NEAR(ClipByGlobalNorm(1.0, gradients) / 5e30, 1.0, 1e-6);
  EXPECT_NEAR(gradients.values(0)[0], 0.6F, 1e-6);
}

TEST(ClipTest, ANormThatIsNotFiniteIsReportedAndChangesNothing) {
  ParameterSet gradients = Gradients({std::numeric_limits<float>::infinity()}, {4.0F});
  EXPECT_TRUE(std::isinf(ClipByGlobalNorm(1.0, gradients)));
  EXPECT_THAT(gradients.values(1), ElementsAre(4.0F));
}

}  // namespace
}  // namespace trainyard::engine
