#include "trainer/transport/block_arena.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace trainyard::engine {
namespace {

size_t BlocksOf(size_t size, size_t arena_bytes) {
  const size_t block = arena_bytes / kArenaBlocks;
  return (size + block - 1) / block;
}

// Of blocks [first, first + count); they lie in the arena.
uint64_t MaskOf(size_t first, size_t count) {
  const uint64_t run = count == kArenaBlocks ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
  return run << first;
}

}  // namespace

std::optional<uint32_t> ArenaWriter::Take(size_t size) {
  const size_t count = BlocksOf(size, bytes_.size());
  if (count == 0 || count > kArenaBlocks) return std::nullopt;
  uint64_t starts = ~state_.taken.load(std::memory_order_acquire);  // bit i: `have` blocks from i on are free
  for (size_t have = 1; have < count;) {
    const size_t more = std::min(have, count - have);
    starts &= starts >> more;
    have += more;
  }
  if (starts == 0) return std::nullopt;
  const auto first = static_cast<uint32_t>(std::countr_zero(starts));
  state_.taken.fetch_or(MaskOf(first, count), std::memory_order_relaxed);
  return first;
}

absl::StatusOr<std::span<const std::byte>> ArenaReader::At(uint32_t block, size_t size) const {
  const size_t begin = uint64_t{block} * (bytes_.size() / kArenaBlocks);
  if (size > 0 && begin < bytes_.size() && size <= bytes_.size() - begin) return bytes_.subspan(begin, size);
  return absl::DataLossError(fmt::format("shared memory: {} bytes at block {}, expected a run inside {} blocks of {} bytes each", size,
                                         block, kArenaBlocks, bytes_.size() / kArenaBlocks));
}

void ArenaReader::Return(uint32_t block, size_t size) const {
  state_.taken.fetch_and(~MaskOf(block, BlocksOf(size, bytes_.size())), std::memory_order_release);
}

}  // namespace trainyard::engine
