// What kernels of inference make of parameters, shared by the batch sizes of a model.
#pragma once

#include <functional>
#include <map>
#include <memory>
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

  // What another kernel holds of `key`, else `floats` zeros that `fill` has worked on. Memory as
  // Buffer's.
  std::shared_ptr<const Buffer> Get(const Key& key, size_t floats, const std::function<void(float*)>& fill);

 private:
  Mutex mutex_;
  std::map<Key, std::weak_ptr<const Buffer>> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace trainyard::engine
