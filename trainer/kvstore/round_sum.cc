#include "trainer/kvstore/round_sum.h"

#include <algorithm>

namespace trainyard::engine {

RoundSum::RoundSum(std::span<const PushedGradient* const> gradients, const PartRows& part, Mean mean, size_t block)
    : readers_(gradients.size()), sum_(static_cast<int>(gradients.size()), block), mean_(block * sizeof(float)) {
  size_t with_examples = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i]->empty) continue;
    readers_[i].emplace(*gradients[i], part);
    ++with_examples;
  }
  divisor_ = static_cast<float>(mean == Mean::kOfAll && with_examples > 0 ? gradients.size() : with_examples);
}

void RoundSum::SkipTo(size_t element) {
  for (std::optional<GradientReader>& reader : readers_) {
    if (reader) reader->SkipTo(element);
  }
}

std::span<const float> RoundSum::Next(size_t count) {
  sum_.Begin(count);
  for (std::optional<GradientReader>& reader : readers_) {
    if (reader) {
      sum_.Add(reader->Next(count, sum_.Scratch()));
    } else {
      sum_.AddNothing();
    }
  }
  const std::span<const float> sum = sum_.Finish();
  if (divisor_ == 1) return sum;
  const std::span<float> mean(mean_.as<float>(), count);
  for (size_t i = 0; i < count; ++i) mean[i] = sum[i] / divisor_;
  return mean;
}

}  // namespace trainyard::engine
