#include "trainer/kvstore/lent_values.h"

#include <algorithm>
#include <utility>

namespace trainyard::engine {

std::span<float> LentValues::Write() {
  if (block_->readers.load(std::memory_order_acquire) > 0) {
    auto copy = std::make_shared<Block>(count_, nullptr);
    std::ranges::copy(Read(), copy->memory.as<float>());
    block_ = std::move(copy);
  }
  return {block_->memory.as<float>(), count_};
}

Payload LentValues::Lend() const {
  block_->readers.fetch_add(1, std::memory_order_relaxed);
  std::shared_ptr<const void> loan(nullptr,
                                   [block = block_](const void* /*nothing*/) { block->readers.fetch_sub(1, std::memory_order_release); });
  return {std::as_bytes(Read()), std::move(loan)};
}

}  // namespace trainyard::engine
