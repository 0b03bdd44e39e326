#include "trainer/tensor/buffer.h"

#include <cstdlib>
#include <cstring>

#include "trainer/base/check.h"

namespace trainyard::engine {

Buffer::Buffer(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  const size_t rounded = (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(kBufferAlignment, rounded));
  TY_CHECK(memory != nullptr);
  std::memset(memory, 0, rounded);
  data_.reset(memory);
}

void Buffer::Free::operator()(std::byte* pointer) const { std::free(pointer); }

}  // namespace trainyard::engine
