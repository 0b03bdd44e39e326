// Blocks of memory that two processes share: one fills runs of them, the other reads a run where it
// lies and gives it back. Neither ever waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/statusor.h"

namespace trainyard::engine {

inline constexpr size_t kArenaBlocks = 64;

// Bit i: block i is taken. Lies in the shared memory; zero is an arena whose blocks are all free.
struct ArenaState {
  alignas(64) std::atomic<uint64_t> taken;
};

// The filler's end. The other process can spoil what it is to read itself, nothing else. Used by
// one thread at a time.
class ArenaWriter {
 public:
  // `bytes` are kArenaBlocks blocks of one size. Both outlive the writer.
  ArenaWriter(ArenaState& state, std::span<std::byte> bytes) : state_(state), bytes_(bytes) {}

  size_t block_bytes() const { return bytes_.size() / kArenaBlocks; }
  // The first block of a run of `size` > 0 bytes, the lowest that is free; nothing: there is none.
  std::optional<uint32_t> Take(size_t size);
  // A run's memory.
  std::span<std::byte> At(uint32_t block, size_t size) const { return bytes_.subspan(block * block_bytes(), size); }

 private:
  ArenaState& state_;
  const std::span<std::byte> bytes_;
};

// The reader's end. Thread-safe. The other process may write into a run at any time, also while it
// is read: whoever checks its content must copy it first.
class ArenaReader {
 public:
  ArenaReader(ArenaState& state, std::span<const std::byte> bytes) : state_(state), bytes_(bytes) {}

  // A run as the writer tells it. DataLoss: it does not lie in the arena.
  absl::StatusOr<std::span<const std::byte>> At(uint32_t block, size_t size) const;
  // Gives back a run of At.
  void Return(uint32_t block, size_t size) const;

 private:
  ArenaState& state_;
  const std::span<const std::byte> bytes_;
};

}  // namespace trainyard::engine
