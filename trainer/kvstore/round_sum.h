// The mean of what the workers of a round have pushed of one part, block by block from front to back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trainer/collectives/tree_order.h"
#include "trainer/kvstore/gradient_reader.h"

namespace trainyard::engine {

// Not thread-safe. Reads the pushes where they lie: of a block it keeps the partial sums of the tree alone. The pushes must outlive it.
class RoundSum {
 public:
  // Of a gradient the sum is divided by the number of workers, of next values by the number of workers with examples.
  enum class Mean : uint8_t { kOfAll, kOfThoseWithExamples };

  // `gradients`: by worker. Blocks have at most `block` elements.
  RoundSum(std::span<const PushedGradient* const> gradients, const PartRows& part, Mean mean, size_t block);

  // No worker had examples: Next must not be called.
  bool nothing() const { return divisor_ == 0; }
  // Goes on at a later element of the part. Only over rows that no worker has sent.
  void SkipTo(size_t element);
  // The mean of the next `count` elements, until the next call.
  std::span<const float> Next(size_t count);

 private:
  std::vector<std::optional<GradientReader>> readers_;  // by worker; nothing: the worker had no examples
  TreeSum sum_;
  Buffer mean_;
  float divisor_ = 0;
};

}  // namespace trainyard::engine
