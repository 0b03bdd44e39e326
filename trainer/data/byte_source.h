// Bytes in a row, from a file, from memory, or out of a gzip stream of either.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace trainyard::engine {

// Not thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills the front of `out`; fewer bytes than asked, and 0, only at the end. DataLoss for a damaged gzip stream, FileError for the disk's
  // errors.
  virtual absl::StatusOr<size_t> Read(std::span<std::byte> out) = 0;
  // No more than this many bytes are left: what a reader may allocate before it has seen them.
  virtual uint64_t AtMostLeft() const = 0;
};

// A regular file.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenFileSource(const std::string& path);
// `bytes` must outlive the source.
std::unique_ptr<ByteSource> MemorySource(std::string_view bytes);
// What `inner` holds, unpacked if its first bytes are those of gzip (whatever its name ends in). `name` is what errors call it.
absl::StatusOr<std::unique_ptr<ByteSource>> Unpacked(std::unique_ptr<ByteSource> inner, std::string name);

// Reads and drops up to `count` bytes; returns how many there were.
absl::StatusOr<uint64_t> Skip(ByteSource& source, uint64_t count);

}  // namespace trainyard::engine
