#include "trainer/report/number_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace trainyard::engine {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(NumberText, AMetricHasFourDecimals) {
  EXPECT_EQ(MetricText(0.1320), "0.1320");
  EXPECT_EQ(MetricText(0), "0.0000");
  EXPECT_EQ(MetricText(-12.5), "-12.5000");
  EXPECT_EQ(MetricText(0.001), "0.0010");
}

TEST(NumberText, AVerySmallMetricIsNotShownAsZeroAndAVeryLargeOneIsShort) {
  EXPECT_EQ(MetricText(4.1e-6), "4.1e-06");
  EXPECT_EQ(MetricText(9.99e-4), "0.000999");
  EXPECT_EQ(MetricText(1e6), "1e+06");
  EXPECT_EQ(MetricText(2.0755053208301787e35), "2.076e+35");
}

TEST(NumberText, APerplexityHasTwoDecimalsAndIsShortToo) {
  EXPECT_EQ(PerplexityText(610.512), "610.51");
  EXPECT_EQ(PerplexityText(1e6), "1e+06");
  EXPECT_EQ(PerplexityText(1e30), "1e+30");
}

TEST(NumberText, WhatIsNoNumberIsNamed) {
  EXPECT_EQ(MetricText(std::numeric_limits<double>::quiet_NaN()), "NaN");
  EXPECT_EQ(MetricText(-kInfinity), "-infinite");
  EXPECT_EQ(PerplexityText(kInfinity), "infinite");
}

}  // namespace
}  // namespace trainyard::engine
