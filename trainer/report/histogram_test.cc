#include "trainer/report/histogram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;

TEST(Histogram, ValuesAreCountedInBucketsOfEqualWidth) {
  const std::vector<float> values = {0, 1, 2, 3, 4, 4};
  const HistogramCounts counts = CountHistogram(values, 4);
  EXPECT_THAT(counts.limits, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(counts.buckets, ElementsAre(2, 1, 1, 2));
  EXPECT_EQ(counts.min, 0);
  EXPECT_EQ(counts.max, 4);
  EXPECT_EQ(counts.count, 6);
  EXPECT_EQ(counts.sum, 14);
  EXPECT_EQ(counts.sum_squares, 46);
}

TEST(Histogram, ValuesBelowZeroHaveALargestBelowZero) {
  const HistogramCounts counts = CountHistogram(std::vector<float>{-2, -8, -6, -6}, 3);
  EXPECT_EQ(counts.min, -8);
  EXPECT_EQ(counts.max, -2);
  EXPECT_THAT(counts.limits, ElementsAre(-6, -4, -2));
  EXPECT_THAT(counts.buckets, ElementsAre(3, 0, 1));
}

TEST(Histogram, EveryValueIsInSomeBucket) {
  std::vector<float> values;
  for (int i = 0; i < 1000; ++i) values.push_back(std::sin(static_cast<float>(i)) * 1e-3F);
  const HistogramCounts counts = CountHistogram(values);
  EXPECT_EQ(counts.buckets.size(), 30);
  EXPECT_EQ(std::accumulate(counts.buckets.begin(), counts.buckets.end(), 0.0), 1000);
}

TEST(Histogram, EqualValuesAreOneBucketAndNoneAreNone) {
  EXPECT_THAT(CountHistogram(std::vector<float>{2, 2, 2}).buckets, ElementsAre(3));
  EXPECT_THAT(CountHistogram(std::vector<float>{2, 2, 2}).limits, ElementsAre(2));
  EXPECT_TRUE(CountHistogram({}).buckets.empty());
}

TEST(Histogram, ValuesThatAreNotFiniteAreCountedApart) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const HistogramCounts counts = CountHistogram(std::vector<float>{1, kInfinity, -kInfinity, std::nanf(""), 2}, 2);
  EXPECT_EQ(counts.not_finite, 3);
  EXPECT_EQ(counts.count, 2);
  EXPECT_EQ(counts.max, 2);
}

TEST(Histogram, TheLargestFloatsDoNotOverflow) {
  constexpr float kMax = std::numeric_limits<float>::max();
  const HistogramCounts counts = CountHistogram(std::vector<float>{-kMax, kMax}, 2);
  EXPECT_THAT(counts.buckets, ElementsAre(1, 1));
}

}  // namespace
}  // namespace trainyard::engine
