#include "trainer/page/curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trainyard::engine {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

std::vector<CurvePoint> Falling(int64_t points) {
  std::vector<CurvePoint> curve;
  for (int64_t i = 0; i < points; ++i) curve.push_back({.step = i, .value = 1.0 / static_cast<double>(1 + i)});
  return curve;
}

TEST(Downsample, LeavesAShortCurveAsItIs) {
  EXPECT_THAT(Downsample({}, 3), ElementsAre());
  EXPECT_EQ(Downsample(Falling(1), 3), Falling(1));
  EXPECT_EQ(Downsample(Falling(100), 100), Falling(100));
}

TEST(Downsample, KeepsEndsAndOrderOfAVeryLongCurve) {
  const std::vector<CurvePoint> curve = Falling(100'000);
  const std::vector<CurvePoint> kept = Downsample(curve, 500);
  EXPECT_EQ(kept.size(), 500U);
  EXPECT_EQ(kept.front(), curve.front());
  EXPECT_EQ(kept.back(), curve.back());
  EXPECT_TRUE(std::ranges::is_sorted(kept, {}, &CurvePoint::step));
}

TEST(Downsample, KeepsASpikeOfOneStep) {
  std::vector<CurvePoint> curve = Falling(10'000);
  curve[4321].value = 7;
  EXPECT_THAT(Downsample(curve, 50), Contains(curve[4321]));
}

TEST(Downsample, KeepsAStepWithoutANumberAndGoesOnBehindIt) {
  std::vector<CurvePoint> curve = Falling(10'000);
  curve[5000].value = std::numeric_limits<double>::quiet_NaN();
  curve[8000].value = 7;
  const std::vector<CurvePoint> kept = Downsample(curve, 50);
  EXPECT_EQ(std::ranges::count_if(kept, [](const CurvePoint& point) { return std::isnan(point.value) && point.step == 5000; }), 1);
  EXPECT_THAT(kept, Contains(curve[8000]));
  EXPECT_EQ(kept.size(), 50U);
}

TEST(Downsample, TakesACurveThatIsNoNumberAnywhere) {
  std::vector<CurvePoint> curve = Falling(1000);
  for (CurvePoint& point : curve) point.value = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Downsample(curve, 10).size(), 10U);
}

}  // namespace
}  // namespace trainyard::engine
