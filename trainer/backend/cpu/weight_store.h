// What kernels of inference make of parameters, shared by the batch sizes of a model.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "trainer/base/mutex.h"
#include "trainer/tensor/buffer.h"

namespace trainyard::engine {

// Thread-safe. Parameters keep their place and values as long as a kernel holds what was made of
// them (Kernel::Prepare).
class WeightStore {
 public:
  // The places of the parameters, and what is made of them.
  using Key = std::pair<std::vector<const void*>, std::string>;

  // What another kernel holds of `key`, else `floats` zeros that `fill` has worked on, aligned to
  // kBufferAlignment. All lie one behind the other in large pages (base/large_pages.h): one
  // prediction reads each weight once, at the speed at which memory delivers. Short memory as
  // Buffer's.
  std::shared_ptr<const float> Get(const Key& key, size_t floats, const std::function<void(float*)>& fill);

 private:
  // What weights are cut from, until the last of them goes.
  struct Slab {
    Buffer memory;
    std::span<std::byte> left;
  };

  std::shared_ptr<float> Cut(size_t floats) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  std::map<Key, std::weak_ptr<const float>> held_ ABSL_GUARDED_BY(mutex_);
  std::weak_ptr<Slab> slab_ ABSL_GUARDED_BY(mutex_);  // the newest
};

}  // namespace trainyard::engine
