// Memory for answers, used again and again: a step then neither allocates large blocks nor faults
// in fresh pages.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine {

// Thread-safe. A buffer returns to the pool when its last owner lets go, and is freed where the
// pool is already full or gone.
class BufferPool {
 public:
  // Keeps at most `max_idle_bytes` of unused buffers.
  explicit BufferPool(size_t max_idle_bytes) : shelf_(std::make_shared<Shelf>(max_idle_bytes)) {}

  // At least `bytes` long; its values are left over from earlier use.
  std::shared_ptr<Buffer> Take(size_t bytes);

 private:
  struct Shelf {
    explicit Shelf(size_t max) : max_idle_bytes(max) {}
    const size_t max_idle_bytes;
    absl::Mutex mutex;
    std::vector<std::unique_ptr<Buffer>> idle ABSL_GUARDED_BY(mutex);
    size_t idle_bytes ABSL_GUARDED_BY(mutex) = 0;
  };
  const std::shared_ptr<Shelf> shelf_;
};

}  // namespace trainyard::engine
