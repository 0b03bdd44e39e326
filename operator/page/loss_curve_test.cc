#include "operator/page/loss_curve.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trainyard::control {
namespace {

Progress At(int64_t step, std::optional<double> loss = 1.0) {
  Progress progress;
  progress.step = step;
  progress.loss = loss;
  return progress;
}

TEST(LossCurve, NeedsTheSameMemoryHoweverLongATrainingIsAndCoversAllOfIt) {
  LossCurve curve;
  constexpr int kReports = 100'000;
  for (int i = 1; i <= kReports; ++i) curve.Add(At(i * 10, 1.0 / i));
  const auto points = curve.Points();
  EXPECT_LE(points.size(), LossCurve::kMost + 1);
  EXPECT_GE(points.size(), LossCurve::kMost / 2);
  EXPECT_LT(points.front().step, kReports * 10 / 50) << "the start is still there";
  EXPECT_EQ(points.back().step, kReports * 10);
  for (size_t i = 1; i < points.size(); ++i) EXPECT_LT(points[i - 1].step, points[i].step);
}

TEST(LossCurve, GoesBackWithAJobThatGoesBackToItsCheckpoint) {
  LossCurve curve;
  for (const int step : {10, 20, 30, 40}) curve.Add(At(step, step));
  curve.Add(At(20, 0.5));
  curve.Add(At(30, 0.25));
  const auto points = curve.Points();
  ASSERT_EQ(points.size(), 3);
  EXPECT_EQ(points[1].loss, 0.5F);
  EXPECT_EQ(points[2].loss, 0.25F);
}

TEST(LossCurve, AStepToldTwiceIsOnePointOfItsNewestNumbers) {
  LossCurve curve;
  curve.Add(At(5, 2.0));
  curve.Add(At(5, 1.5));
  ASSERT_EQ(curve.Points().size(), 1);
  EXPECT_EQ(curve.Points()[0].loss, 1.5F);
}

TEST(LossCurve, FewerPointsStillReachFromTheFirstToTheNewest) {
  LossCurve curve;
  EXPECT_TRUE(curve.Points(8).empty());
  for (int i = 0; i < 100; ++i) curve.Add(At(i, i == 99 ? std::nullopt : std::optional<double>(i)));
  const auto points = curve.Points(8);
  ASSERT_EQ(points.size(), 8);
  EXPECT_EQ(points.front().step, 0);
  EXPECT_EQ(points.back().step, 99);
  EXPECT_TRUE(std::isnan(points.back().loss));
}

}  // namespace
}  // namespace trainyard::control
