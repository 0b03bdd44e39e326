#include "trainer/data/batch.h"

#include <algorithm>
#include <array>
#include <utility>

namespace trainyard::engine {
namespace {

Shape WithExamples(int64_t examples, const Shape& per_example) {
  TY_CHECK(per_example.rank() < Shape::kMaxRank);
  std::array<int64_t, Shape::kMaxRank> extents{examples};
  std::copy(per_example.extents().begin(), per_example.extents().end(), extents.begin() + 1);
  return Shape(std::span<const int64_t>(extents.data(), static_cast<size_t>(per_example.rank()) + 1));
}

void Point(Tensor& tensor, Buffer& memory, DType dtype, const Shape& shape) {
  tensor.dtype = dtype;
  tensor.shape = shape;
  if (memory.size() < tensor.bytes()) memory = Buffer(tensor.bytes());
  tensor.data = memory.data();
}

}  // namespace

void Batch::Resize(int64_t new_examples, DType x_dtype, const Shape& example_shape, DType y_dtype, const Shape& label_shape) {
  examples = new_examples;
  Point(x, x_memory, x_dtype, WithExamples(new_examples, example_shape));
  Point(y, y_memory, y_dtype, WithExamples(new_examples, label_shape));
}

Tensor Batch::ReplaceX(DType x_dtype) {
  const Tensor before = x;
  std::swap(x_memory, x_before);
  Point(x, x_memory, x_dtype, before.shape);
  return before;
}

void CopyExamplesAsF32(const Batch& batch, std::span<float> out) {
  TY_CHECK(static_cast<int64_t>(out.size()) == batch.x.shape.elements());
  const float scale = batch.x_scale;
  if (batch.x.dtype == DType::kU8) {
    const auto pixels = batch.x.values<const uint8_t>();
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(pixels[i]) * scale;
    return;
  }
  const auto values = batch.x.values<const float>();
  for (size_t i = 0; i < out.size(); ++i) out[i] = values[i] * scale;
}

}  // namespace trainyard::engine
