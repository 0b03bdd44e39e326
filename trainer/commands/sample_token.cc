#include "trainer/commands/sample_token.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trainer/base/check.h"

namespace trainyard::engine {

int32_t TokenSampler::Next(std::span<const float> scores) {
  TY_CHECK(!scores.empty());
  const auto higher = [&](int32_t a, int32_t b) { return scores[a] != scores[b] ? scores[a] > scores[b] : a < b; };
  order_.resize(scores.size());
  std::iota(order_.begin(), order_.end(), 0);
  if (sampling_.temperature <= 0) return *std::ranges::min_element(order_, higher);
  if (sampling_.top_k > 0 && sampling_.top_k < static_cast<int64_t>(order_.size())) {
    std::ranges::nth_element(order_, order_.begin() + sampling_.top_k, higher);
    order_.resize(static_cast<size_t>(sampling_.top_k));
    std::ranges::sort(order_);  // a fixed order of the sums below
  }
  const double highest = scores[*std::ranges::min_element(order_, higher)];
  double sum = 0;
  weights_.clear();
  for (const int32_t id : order_) {
    sum += std::exp((static_cast<double>(scores[id]) - highest) / sampling_.temperature);
    weights_.push_back(sum);
  }
  const double drawn = sum * (1 - random_.Unit());  // in [0, sum)
  const auto place = std::ranges::upper_bound(weights_, drawn) - weights_.begin();
  return order_[std::min<size_t>(static_cast<size_t>(place), order_.size() - 1)];
}

}  // namespace trainyard::engine
