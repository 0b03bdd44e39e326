#include "trainer/commands/sample_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace trainyard::engine {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pair;

// How often each token comes in 20,000 draws.
std::map<int32_t, double> Shares(const TokenSampling& sampling, const std::vector<float>& scores) {
  constexpr int kDraws = 20'000;
  TokenSampler sampler(sampling, 7);
  std::map<int32_t, double> shares;
  for (int i = 0; i < kDraws; ++i) shares[sampler.Next(scores)] += 1.0 / kDraws;
  return shares;
}

const std::vector<float> kScores = {0, std::log(3.0F), std::log(6.0F)};  // probabilities 0.1, 0.3, 0.6

TEST(TokenSampler, DrawsWithTheProbabilitiesOfTheScores) {
  EXPECT_THAT(Shares({}, kScores),
              ElementsAre(Pair(0, DoubleNear(0.1, 0.02)), Pair(1, DoubleNear(0.3, 0.02)), Pair(2, DoubleNear(0.6, 0.02))));
}

TEST(TokenSampler, ALowTemperatureFavoursTheLikely) {
  EXPECT_THAT(Shares({.temperature = 0.5}, kScores),  // 1 : 9 : 36
              ElementsAre(Pair(0, DoubleNear(1.0 / 46, 0.01)), Pair(1, DoubleNear(9.0 / 46, 0.02)), Pair(2, DoubleNear(36.0 / 46, 0.02))));
  EXPECT_THAT(Shares({.temperature = 0}, kScores), ElementsAre(Pair(2, DoubleNear(1, 1e-9))));
}

TEST(TokenSampler, TopKLeavesTheHighestScores) {
  EXPECT_THAT(Shares({.top_k = 2}, kScores), ElementsAre(Pair(1, DoubleNear(1.0 / 3, 0.02)), Pair(2, DoubleNear(2.0 / 3, 0.02))));
  EXPECT_THAT(Shares({.top_k = 1}, {5, 5, 1}), ElementsAre(Pair(0, DoubleNear(1, 1e-9))));
  EXPECT_EQ(Shares({.top_k = 100}, kScores).size(), 3U);
}

TEST(TokenSampler, HugeScoresDoNotOverflow) { EXPECT_THAT(Shares({}, {1e30F, -1e30F}), ElementsAre(Pair(0, DoubleNear(1, 1e-9)))); }

TEST(TokenSampler, TheSeedDecides) {
  const auto draw = [](uint64_t seed) {
    TokenSampler sampler({}, seed);
    std::vector<int32_t> tokens;
    for (int i = 0; i < 50; ++i) tokens.push_back(sampler.Next(kScores));
    return tokens;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

}  // namespace
}  // namespace trainyard::engine
