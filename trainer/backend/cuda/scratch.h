// A kernel's working memory, divided into parts.
#pragma once

#include <cstddef>

#include "trainer/backend/backend.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine::cuda {

// A part of the memory that KernelContext::scratch points to; null where it has no bytes.
template <typename T>
struct ScratchPart {
  size_t offset = 0;
  size_t bytes = 0;

  T* In(const KernelContext& context) const {
    return bytes == 0 ? nullptr : reinterpret_cast<T*>(static_cast<std::byte*>(context.scratch) + offset);
  }
};

class ScratchLayout {
 public:
  // Parts are aligned to kBufferAlignment.
  template <typename T>
  ScratchPart<T> Add(int64_t elements) {
    return AddBytes<T>(static_cast<size_t>(elements) * sizeof(T));
  }
  template <typename T>
  ScratchPart<T> AddBytes(size_t bytes) {
    const ScratchPart<T> part{bytes_, bytes};
    bytes_ += Aligned(bytes);
    return part;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

}  // namespace trainyard::engine::cuda
