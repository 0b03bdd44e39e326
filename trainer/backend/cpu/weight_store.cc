#include "trainer/backend/cpu/weight_store.h"

#include <algorithm>

#include "trainer/base/large_pages.h"

namespace trainyard::engine {
namespace {

// What is not written is not taken.
constexpr size_t kSlabBytes = 8 * kLargePage;

}  // namespace

std::shared_ptr<float> WeightStore::Cut(size_t floats) {
  const size_t bytes = Aligned(floats * sizeof(float));
  std::shared_ptr<Slab> slab = slab_.lock();
  if (slab == nullptr || slab->left.size() < bytes) {
    Buffer memory(std::max(bytes, kSlabBytes));
    const std::span<std::byte> all = memory.bytes();
    slab = std::make_shared<Slab>(std::move(memory), all);
    slab_ = slab;
  }
  auto* const piece = reinterpret_cast<float*>(slab->left.data());
  slab->left = slab->left.subspan(bytes);
  return {piece, [slab](float*) {}};  // held or not by itself, though others keep the slab
}

std::shared_ptr<const float> WeightStore::Get(const Key& key, size_t floats, const std::function<void(float*)>& fill) {
  const MutexLock lock(&mutex_);
  std::erase_if(held_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<const float>& held = held_[key];
  if (std::shared_ptr<const float> found = held.lock()) return found;
  std::shared_ptr<float> made = Cut(floats);
  fill(made.get());
  held = made;
  return made;
}

}  // namespace trainyard::engine
