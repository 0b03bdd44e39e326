#include "trainer/tensor/buffer.h"

#include <cstdlib>
#include <memory>

#include "trainer/base/check.h"
#include "trainer/base/large_pages.h"
#include "trainer/base/lendable_memory.h"
#include "trainer/base/memory_for.h"
#include "trainer/base/memory_room.h"

namespace trainyard::engine {
namespace {

constexpr size_t kWorthALook = 64 << 20;  // at the limits, which are files

// Null where memory is short.
std::shared_ptr<std::byte> Zeroed(size_t bytes) {
  if (bytes >= kLargePage) return MapLargePages(bytes);
  size_t space = bytes + kBufferAlignment;
  void* const block = std::calloc(1, space);
  if (block == nullptr) return nullptr;
  void* start = block;
  TY_CHECK(std::align(kBufferAlignment, bytes, start, space) != nullptr);
  return {static_cast<std::byte*>(start), [block](std::byte*) { std::free(block); }};
}

}  // namespace

Buffer::Buffer(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  const auto wanted = static_cast<int64_t>(bytes);
  if (bytes >= kWorthALook && wanted > ReadMemoryRoom().limit) throw MemoryShortage(wanted);
  data_ = Zeroed(bytes);
  if (data_ == nullptr) throw MemoryShortage(wanted);
}

Buffer::Buffer(size_t bytes, LendableMemory* memory) {
  data_ = memory != nullptr && bytes > 0 ? memory->Take(bytes) : nullptr;
  if (data_ == nullptr) {
    *this = Buffer(bytes);
    return;
  }
  size_ = bytes;
}

}  // namespace trainyard::engine
