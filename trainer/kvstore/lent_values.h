// Values of a part that answers borrow without a copy.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>

#include "trainer/tensor/buffer.h"
#include "trainer/transport/payload.h"

namespace trainyard::engine {

// A payload of Lend() keeps the values as they are now. Write() writes in place where no payload is
// left, else to a copy of the values: so memory grows only by what is lent and overwritten. Not
// thread-safe; payloads may be released from any thread at any time.
class LentValues {
 public:
  // In `memory` where that is not null and has room. A copy that Write makes lies elsewhere.
  explicit LentValues(size_t count, LendableMemory* memory = nullptr) : count_(count), block_(std::make_shared<Block>(count, memory)) {}

  size_t size() const { return count_; }
  size_t size_bytes() const { return count_ * sizeof(float); }
  std::span<const float> Read() const { return {block_->memory.as<float>(), count_}; }
  // Valid until the next call.
  std::span<float> Write();
  Payload Lend() const;

 private:
  struct Block {
    Block(size_t count, LendableMemory* lendable) : memory(count * sizeof(float), lendable) {}
    Buffer memory;
    std::atomic<int> readers = 0;
  };

  size_t count_;
  std::shared_ptr<Block> block_;
};

}  // namespace trainyard::engine
