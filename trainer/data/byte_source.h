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
#include "trainer/tensor/buffer.h"

namespace trainyard::engine {

// Not thread-safe.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills the front of `out`; fewer bytes than asked, and 0, only at the end. DataLoss for a
  // damaged gzip stream, FileError for the disk's errors.
  virtual absl::StatusOr<size_t> Read(std::span<std::byte> out) = 0;
  // No more than this many bytes are left: a reader may allocate so many before it has seen them.
  virtual uint64_t AtMostLeft() const = 0;
  // At least this many bytes are there, even if a packed file's header promises more.
  virtual uint64_t AtLeastLeft() const { return 0; }
};

// A regular file.
absl::StatusOr<std::unique_ptr<ByteSource>> OpenFileSource(const std::string& path);
// `bytes` must outlive the source.
std::unique_ptr<ByteSource> MemorySource(std::string_view bytes);
// The bytes of `inner`, unpacked if the first ones are those of gzip, whatever the name ends in.
// `name` is what errors call it.
absl::StatusOr<std::unique_ptr<ByteSource>> Unpacked(std::unique_ptr<ByteSource> inner, std::string name);

// Reads `wanted` bytes, or as many as there are. Memory is taken for what is there for sure, and
// beyond that as bytes arrive: a file that promises gigabytes and holds none costs none.
absl::StatusOr<Buffer> ReadAsTheyCome(ByteSource& source, uint64_t wanted);

// Reads and drops up to `count` bytes; returns how many there were.
absl::StatusOr<uint64_t> Skip(ByteSource& source, uint64_t count);

}  // namespace trainyard::engine
