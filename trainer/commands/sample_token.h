// Draws a token by the scores that a language model gives to all tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/data/random.h"

namespace trainyard::engine {

struct TokenSampling {
  double temperature = 1;  // scores are divided by it: below 1 the likely become more likely; 0: always the highest score
  int64_t top_k = 0;       // only the k highest scores are left; 0: all
};

// Not thread-safe; keeps its memory from call to call.
class TokenSampler {
 public:
  TokenSampler(const TokenSampling& sampling, uint64_t seed) : sampling_(sampling), random_(seed) {}

  // The next token: an id drawn with the probabilities softmax(scores / temperature) among those
  // left. `scores` are not empty. Among equal scores the lowest id counts as higher.
  int32_t Next(std::span<const float> scores);

 private:
  const TokenSampling sampling_;
  Random random_;
  std::vector<int32_t> order_;
  std::vector<double> weights_;
};

}  // namespace trainyard::engine
