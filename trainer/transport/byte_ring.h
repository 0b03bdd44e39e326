// A ring of bytes in memory that two processes share: one writes, one reads, and neither ever
// waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trainyard::engine {

// How many bytes were written and read, ever. Lies in the shared memory; zeros are an empty ring.
struct RingPositions {
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
};

// The writer's end. It keeps its own position to itself: the other process can spoil the bytes that
// arrive, not the place where this process writes.
//
// Positions are stored and loaded in one order with the flags of doorbell.h, so that no end sleeps
// while there is something to do.
class RingWriter {
 public:
  // `bytes` has a power of two of them. Both lie in memory that is zero and outlives the writer.
  RingWriter(RingPositions& positions, std::span<std::byte> bytes) : positions_(positions), bytes_(bytes) {}

  // Room for that many bytes. DataLoss: the reader says that it has read more than there was.
  absl::StatusOr<size_t> Room() const;
  // Copies as much of `from` as there is room for, and returns how much.
  absl::StatusOr<size_t> Write(std::span<const std::byte> from);

 private:
  RingPositions& positions_;
  const std::span<std::byte> bytes_;
  uint64_t written_ = 0;
};

// The reader's end, likewise.
class RingReader {
 public:
  RingReader(RingPositions& positions, std::span<const std::byte> bytes) : positions_(positions), bytes_(bytes) {}

  // That many bytes are there. DataLoss: the writer says that it has written more than the ring
  // holds.
  absl::StatusOr<size_t> Available() const;
  // Copies as much to `to` as is there, and returns how much.
  absl::StatusOr<size_t> Read(std::span<std::byte> to);

 private:
  RingPositions& positions_;
  const std::span<const std::byte> bytes_;
  uint64_t read_ = 0;
};

}  // namespace trainyard::engine
