// The mean of what the workers of a round have pushed of one part, block by block from front to
// back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/collectives/tree_order.h"
#include "trainer/kvstore/gradient_reader.h"

namespace trainyard::engine {

// The memory in which the sum of one round at a time works. Its values are left over from the round
// before.
struct RoundMemory {
  RoundMemory(int workers, size_t block) : sum(workers, block), mean(block * sizeof(float)) {}
  TreeSum sum;
  Buffer mean;
};

// Thread-safe. Memories that are used again and again: there are as many as rounds were ever summed
// at one time.
class RoundMemories {
 public:
  // Of rounds of `workers` pushes, in blocks of at most `block` elements.
  RoundMemories(int workers, size_t block) : workers_(workers), block_(block), shelf_(std::make_shared<Shelf>()) {}

  // Comes back when its last owner lets go.
  std::shared_ptr<RoundMemory> Take();

 private:
  struct Shelf {
    absl::Mutex mutex;
    std::vector<std::unique_ptr<RoundMemory>> idle ABSL_GUARDED_BY(mutex);
  };
  const int workers_;
  const size_t block_;
  const std::shared_ptr<Shelf> shelf_;
};

// Not thread-safe. Reads the pushes where they lie: of a block it keeps the partial sums of the
// tree alone. The pushes must outlive it.
class RoundSum {
 public:
  // Of a gradient the sum is divided by the number of all workers' devices, of next values by the
  // number of devices with examples.
  enum class Mean : uint8_t { kOfAll, kOfThoseWithExamples };

  // `gradients`: by worker, each of which has `devices` devices. `memory` is of so many workers.
  RoundSum(std::span<const PushedGradient* const> gradients, const PartRows& part, Mean mean, int devices,
           std::shared_ptr<RoundMemory> memory);

  // No worker had examples: Next must not be called.
  bool nothing() const { return divisor_ == 0; }
  // Goes on at a later element of the part. Only over rows that no worker has sent.
  void SkipTo(size_t element);
  // The mean of the next `count` elements, at most a block of the memory, until the next call.
  std::span<const float> Next(size_t count);

 private:
  std::vector<std::optional<GradientReader>> readers_;  // by worker; nothing: the worker had no examples
  const std::shared_ptr<RoundMemory> memory_;
  float divisor_ = 0;
};

}  // namespace trainyard::engine
