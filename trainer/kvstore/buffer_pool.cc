#include "trainer/kvstore/buffer_pool.h"

#include <bit>
#include <utility>

namespace trainyard::engine {

std::shared_ptr<Buffer> BufferPool::Take(size_t bytes) {
  const size_t wanted = std::bit_ceil(bytes < kBufferAlignment ? kBufferAlignment : bytes);
  std::unique_ptr<Buffer> buffer;
  {
    absl::MutexLock lock(&shelf_->mutex);
    for (std::unique_ptr<Buffer>& idle : shelf_->idle) {
      if (idle->size() != wanted) continue;
      buffer = std::move(idle);
      idle = std::move(shelf_->idle.back());
      shelf_->idle.pop_back();
      shelf_->idle_bytes -= wanted;
      break;
    }
  }
  if (buffer == nullptr) buffer = std::make_unique<Buffer>(wanted);
  return {buffer.release(), [shelf = shelf_](Buffer* pointer) {
            std::unique_ptr<Buffer> returned(pointer);
            absl::MutexLock lock(&shelf->mutex);
            if (shelf->idle_bytes + returned->size() > shelf->max_idle_bytes) return;
            shelf->idle_bytes += returned->size();
            shelf->idle.push_back(std::move(returned));
          }};
}

}  // namespace trainyard::engine
