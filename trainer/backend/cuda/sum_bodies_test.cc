#include "trainer/backend/cuda/sum_bodies.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "trainer/backend/cuda/test_host_device.h"

namespace trainyard::engine::cuda {
namespace {

struct ChannelMoments {
  std::vector<float> mean, variance;
};

// By Moments, whose scale is 1 / sqrt(variance + epsilon).
ChannelMoments MomentsOf(const std::vector<float>& x, int64_t channels) {
  const auto rows = static_cast<int64_t>(x.size()) / channels;
  std::vector<float> partial(PartialBytes<Moments<float>>(channels, rows) / sizeof(float));
  ChannelMoments found{std::vector<float>(channels), std::vector<float>(channels)};
  std::vector<float> scale(channels), zeros(channels), next(channels);
  const Moments<float> body{x.data(), zeros.data(), zeros.data(), found.mean.data(), scale.data(), next.data(), found.variance.data(),
                            channels, 0.0f,         1e-5f};
  RunOnHost(Reduce<Moments<float>>{body, channels, rows, partial.data()});
  for (int64_t c = 0; c < channels; ++c) {
    if (std::isnan(found.mean[c])) continue;
    EXPECT_EQ(next[c], found.mean[c]);
    EXPECT_NEAR(scale[c] * std::sqrt(found.variance[c] + 1e-5f), 1.0f, 1e-6f);
  }
  return found;
}

ChannelMoments Expected(const std::vector<float>& x, int64_t channels) {
  const auto rows = static_cast<int64_t>(x.size()) / channels;
  ChannelMoments expected;
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0, squares = 0;
    for (int64_t row = 0; row < rows; ++row) sum += x[row * channels + c];
    for (int64_t row = 0; row < rows; ++row) squares += std::pow(x[row * channels + c] - sum / static_cast<double>(rows), 2);
    expected.mean.push_back(static_cast<float>(sum / static_cast<double>(rows)));
    expected.variance.push_back(static_cast<float>(squares / static_cast<double>(rows)));
  }
  return expected;
}

void ExpectMoments(const std::vector<float>& x, int64_t channels) {
  const ChannelMoments found = MomentsOf(x, channels);
  const ChannelMoments expected = Expected(x, channels);
  for (int64_t c = 0; c < channels; ++c) {
    const float spread = std::sqrt(expected.variance[c]);
    EXPECT_NEAR(found.mean[c], expected.mean[c], 2e-6f * (std::abs(expected.mean[c]) + spread)) << c << " of " << channels;
    EXPECT_NEAR(found.variance[c], expected.variance[c], 2e-5f * expected.variance[c]) << c << " of " << channels;
  }
}

std::vector<float> Drawn(int64_t elements, float mean) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(mean, 1.0f);
  std::vector<float> x(static_cast<size_t>(elements));
  for (float& value : x) value = normal(random);
  return x;
}

// Neighbours of four, two and one; one range and many; fewer rows than lanes.
TEST(Moments, AreThoseOfEachChannel) {
  for (const int64_t channels : {1, 3, 6, 64, 132}) {
    for (const int64_t rows : {1, 2, 33, 5000}) {
      SCOPED_TRACE(rows);
      ExpectMoments(Drawn(rows * channels, 0.5f), channels);
    }
  }
}

// The difference of two sums of squares would have no digit left.
TEST(Moments, OfAMeanFarFromZeroKeepTheVariance) { ExpectMoments(Drawn(int64_t{20'000} * 8, 3000.0f), 8); }

// Nor does one element from which a lane takes distances spoil those of the others.
TEST(Moments, OfAnElementFarFromAllOthersKeepTheVariance) {
  std::vector<float> x = Drawn(int64_t{20'000} * 8, 0.0f);
  for (int64_t c = 0; c < 8; ++c) x[c] = 1000.0f;
  ExpectMoments(x, 8);
}

TEST(Moments, OfEqualElementsAreThemAndNothing) {
  const ChannelMoments found = MomentsOf(std::vector<float>(3000, 0.1f), 3);
  EXPECT_EQ(found.mean, std::vector<float>(3, 0.1f));
  EXPECT_EQ(found.variance, std::vector<float>(3, 0.0f));
}

TEST(Moments, OfAnElementThatIsNoNumberAreNone) {
  std::vector<float> x = Drawn(4000, 0.0f);
  x[2001] = std::nanf("");
  const ChannelMoments found = MomentsOf(x, 4);
  EXPECT_TRUE(std::isnan(found.mean[1]) && std::isnan(found.variance[1]));
  EXPECT_FALSE(std::isnan(found.mean[0]) || std::isnan(found.variance[0]));
}

}  // namespace
}  // namespace trainyard::engine::cuda
