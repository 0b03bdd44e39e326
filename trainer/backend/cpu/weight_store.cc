#include "trainer/backend/cpu/weight_store.h"

namespace trainyard::engine {

std::shared_ptr<const Buffer> WeightStore::Get(const Key& key, size_t floats, const std::function<void(float*)>& fill) {
  const MutexLock lock(&mutex_);
  std::erase_if(held_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<const Buffer>& held = held_[key];
  if (std::shared_ptr<const Buffer> found = held.lock()) return found;
  auto made = std::make_shared<Buffer>(floats * sizeof(float));
  fill(made->as<float>());
  held = made;
  return made;
}

}  // namespace trainyard::engine
