// Owned bytes, aligned to a cache line and zeroed: what arenas, parameters and batches live in.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace trainyard::engine {

class LendableMemory;

// Of everything that kernels work on: a cache line, and the widest vector of the processors at
// hand.
inline constexpr size_t kBufferAlignment = 64;
constexpr size_t Aligned(size_t bytes) { return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment; }

// Movable, not copyable. An empty buffer has no memory. One of kLargePage (base/large_pages.h) or
// more begins at such a page.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&&) = default;
  Buffer& operator=(Buffer&&) = default;
  // Zeroed. A page is taken when it is first written. Throws MemoryShortage where memory is short,
  // also where a cgroup would end the process as soon as it wrote to a large buffer. Large buffers
  // are made within WithMemoryFor (memory_for.h).
  explicit Buffer(size_t bytes);
  // The same, out of `memory` where that is not null and has so much left.
  Buffer(size_t bytes, LendableMemory* memory);

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  size_t size() const { return size_; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_.get());
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_.get());
  }
  std::span<std::byte> bytes() { return {data(), size()}; }
  std::span<const std::byte> bytes() const { return {data(), size()}; }

 private:
  std::shared_ptr<std::byte> data_;
  size_t size_ = 0;
};

}  // namespace trainyard::engine
