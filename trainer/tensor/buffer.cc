#include "trainer/tensor/buffer.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "trainer/base/check.h"
#include "trainer/base/large_pages.h"
#include "trainer/base/lendable_memory.h"
#include "trainer/base/memory_for.h"
#include "trainer/base/memory_room.h"

namespace trainyard::engine {
namespace {

constexpr size_t kLarge = 64 << 20;  // worth a look at the limits, which are files

}  // namespace

// Large memory is taken page by page, as it is written first: calloc does not touch what comes
// zeroed from the system. The line before the data holds the address of the block.
Buffer::Buffer(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  const auto wanted = static_cast<int64_t>(bytes);
  if (bytes >= kLarge && wanted > ReadMemoryRoom().limit) throw MemoryShortage(wanted);
  size_t space = Aligned(bytes) + 2 * kBufferAlignment;
  void* const block = std::calloc(1, space);
  if (block == nullptr) throw MemoryShortage(wanted);
  void* line = block;
  TY_CHECK(std::align(kBufferAlignment, kBufferAlignment + bytes, line, space) != nullptr);
  std::memcpy(line, static_cast<const void*>(&block), sizeof block);
  data_.reset(static_cast<std::byte*>(line) + kBufferAlignment);
  AdviseLargePages(block, bytes);
}

Buffer::Buffer(size_t bytes, LendableMemory* memory) {
  std::shared_ptr<std::byte> taken = memory != nullptr && bytes > 0 ? memory->Take(bytes) : nullptr;
  if (taken == nullptr) {
    *this = Buffer(bytes);
    return;
  }
  std::byte* const start = taken.get();
  data_ = {start, Free{.lendable = std::move(taken)}};
  size_ = bytes;
}

void Buffer::Free::operator()(std::byte* pointer) const {
  if (lendable != nullptr) return;
  void* block = nullptr;
  std::memcpy(static_cast<void*>(&block), pointer - kBufferAlignment, sizeof block);
  std::free(block);
}

}  // namespace trainyard::engine
