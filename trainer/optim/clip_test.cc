#include "trainer/optim/clip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

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

TEST(ClipTest, RowsThatAreNotTouchedChangeNoBit) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  ParameterSet dense({{.name = "embedding", .shape = {60, 13}}});
  ParameterSet rows({{.name = "embedding", .shape = {60, 13}}});
  const std::vector<int32_t> ids = {0, 1, 7, 30, 59};
  for (const int32_t row : ids) {
    for (int i = 0; i < 13; ++i) rows.values(0)[row * 13 + i] = normal(random);
  }
  std::ranges::copy(rows.values(0), dense.values(0).begin());
  rows.touched_rows(0).Reserve(60);
  rows.touched_rows(0).Touch(ids);
  ScaleGradient(0.3F, 0, dense);
  ScaleGradient(0.3F, 0, rows);
  EXPECT_EQ(ClipByGlobalNorm(0.5, dense), ClipByGlobalNorm(0.5, rows));
  EXPECT_TRUE(std::ranges::equal(dense.values(0), rows.values(0)));
  rows.touched_rows(0).Touch(std::span(ids).first(1));
  EXPECT_LT(ClipByGlobalNorm(0.5, rows), 0.5) << "the list is believed";
}

// Of more elements than parts can be small, with a row across the end of a part.
TEST(ClipTest, TheNumberOfThreadsChangesNoBit) {
  constexpr int64_t kRows = 10'007;
  constexpr int64_t kRow = 111;
  std::vector<int32_t> ids;
  for (int32_t row = 0; row < kRows; row += row % 5 == 0 ? 1 : 2) ids.push_back(row);
  ThreadPool threads(3);
  for (const bool by_rows : {false, true}) {
    std::vector<ParameterSet> sets;
    std::vector<double> norms;
    for (ThreadPool* const pool : {static_cast<ThreadPool*>(nullptr), &threads}) {
      std::mt19937 random(5);
      std::normal_distribution<float> normal;
      ParameterSet& set = sets.emplace_back(std::vector<ParameterSpec>{{.name = "embedding", .shape = {kRows, kRow}}});
      for (const int32_t row : ids) {
        for (float& value : set.values(0).subspan(static_cast<size_t>(row * kRow), kRow)) value = normal(random);
      }
      if (by_rows) {
        set.touched_rows(0).Reserve(kRows);
        set.touched_rows(0).Touch(ids);
      }
      norms.push_back(ClipByGlobalNorm(2.5, set, pool));
    }
    EXPECT_EQ(norms[0], norms[1]);
    EXPECT_NEAR(norms[0], std::sqrt(static_cast<double>(ids.size() * kRow)), 3.0);
    EXPECT_TRUE(std::ranges::equal(sets[0].values(0), sets[1].values(0)));
    EXPECT_NEAR(ClipByGlobalNorm(100.0, sets[1]), 2.5, 1e-4);
  }
}

TEST(ClipTest, ANormThatIsNotFiniteIsReportedAndChangesNothing) {
  ParameterSet gradients = Gradients({std::numeric_limits<float>::infinity()}, {4.0F});
  EXPECT_TRUE(std::isinf(ClipByGlobalNorm(1.0, gradients)));
  EXPECT_THAT(gradients.values(1), ElementsAre(4.0F));
}

}  // namespace
}  // namespace trainyard::engine
