// Memory of another process of this machine, which that process lets this one read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/statusor.h"

namespace trainyard::engine {

// Where a LendableMemory is. Lies in the shared memory of a stream; zeros: there is none.
struct LentMemoryPlace {
  int64_t process;
  int64_t file;
  uint64_t bytes;
};

// A mapping to read. The other process may write at any time, also while it is read.
class LentMemory {
 public:
  // Unavailable, InvalidArgument: the file cannot be opened or mapped, or could shrink, or has
  // another size.
  static absl::StatusOr<std::shared_ptr<const LentMemory>> Open(const LentMemoryPlace& place);
  ~LentMemory();
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit LentMemory(std::span<const std::byte> bytes) : bytes_(bytes) {}
  const std::span<const std::byte> bytes_;
};

}  // namespace trainyard::engine
