#include "trainer/data/memory_dataset.h"

#include <cstring>

#include "trainer/base/check.h"

namespace trainyard::engine {
namespace {

void Gather(const Buffer& from, size_t bytes_each, std::span<const int64_t> indices, void* to) {
  auto* out = static_cast<std::byte*>(to);
  for (size_t i = 0; i < indices.size(); ++i) std::memcpy(out + i * bytes_each, from.data() + indices[i] * bytes_each, bytes_each);
}

}  // namespace

MemoryDataset::MemoryDataset(DatasetInfo info, Buffer x, Buffer y) : info_(std::move(info)), x_(std::move(x)), y_(std::move(y)) {
  TY_CHECK(x_.size() == info_.examples * info_.example_shape.elements() * SizeOf(info_.x_dtype));
  TY_CHECK(y_.size() == info_.examples * info_.label_shape.elements() * SizeOf(info_.y_dtype));
}

absl::Status MemoryDataset::Read(std::span<const int64_t> indices, Batch& batch) const {
  for (int64_t index : indices) TY_CHECK(index >= 0 && index < info_.examples);
  batch.Resize(static_cast<int64_t>(indices.size()), info_.x_dtype, info_.example_shape, info_.y_dtype, info_.label_shape);
  batch.x_scale = info_.x_scale;
  Gather(x_, info_.example_shape.elements() * SizeOf(info_.x_dtype), indices, batch.x.data);
  Gather(y_, info_.label_shape.elements() * SizeOf(info_.y_dtype), indices, batch.y.data);
  return absl::OkStatus();
}

}  // namespace trainyard::engine
