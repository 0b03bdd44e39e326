#include "trainer/kvstore/gradient_compressor.h"

#include <algorithm>

#include "trainer/base/check.h"
#include "trainer/tensor/bfloat16.h"

namespace trainyard::engine {

int64_t GradientCompressor::BytesFor(std::span<const ParameterSpec> specs, Compression compression) {
  int64_t bytes = 0;
  for (const ParameterSpec& spec : specs) {
    if (TravelType(spec, compression) == DType::kBF16) bytes += spec.shape.elements() * static_cast<int64_t>(sizeof(float) + 2);
  }
  return bytes;
}

GradientCompressor::GradientCompressor(std::span<const ParameterSpec> specs, Compression compression) {
  if (compression == Compression::kNone) return;
  size_t bytes = 0;
  for (const ParameterSpec& spec : specs) {
    Tensor& tensor = tensors_.emplace_back();
    if (TravelType(spec, compression) == DType::kF32) continue;
    tensor.elements = static_cast<size_t>(spec.shape.elements());
    tensor.row_elements = static_cast<size_t>(spec.row_elements());
    tensor.residual_at = bytes;
    tensor.sent_at = tensor.residual_at + Aligned(tensor.elements * sizeof(float));
    bytes = tensor.sent_at + Aligned(2 * tensor.elements);
  }
  memory_ = Buffer(bytes);
}

std::span<const std::byte> GradientCompressor::Compress(int key, const GradientView& gradient) {
  Tensor& tensor = tensors_[key];
  TY_CHECK(gradient.values.size() == tensor.elements);
  const std::span<float> residual = ResidualOf(tensor);
  const std::span<std::byte> sent = SentOf(tensor);
  if (!gradient.rows) {
    ToBfloat16(gradient.values, residual, sent);
    tensor.all_sent = true;
    return sent;
  }
  Clear(tensor);
  tensor.rows_sent.assign(gradient.rows->begin(), gradient.rows->end());
  for (const int32_t row : tensor.rows_sent) {
    const size_t begin = static_cast<size_t>(row) * tensor.row_elements;
    const size_t count = tensor.row_elements;
    ToBfloat16(gradient.values.subspan(begin, count), residual.subspan(begin, count), sent.subspan(2 * begin, 2 * count));
  }
  return sent;
}

void GradientCompressor::Clear(Tensor& tensor) {
  const std::span<std::byte> sent = SentOf(tensor);
  if (tensor.all_sent) std::ranges::fill(sent, std::byte{});
  tensor.all_sent = false;
  for (const int32_t row : tensor.rows_sent) {
    std::ranges::fill(sent.subspan(2 * static_cast<size_t>(row) * tensor.row_elements, 2 * tensor.row_elements), std::byte{});
  }
}

void GradientCompressor::Forget() {
  for (const Tensor& tensor : tensors_) std::ranges::fill(ResidualOf(tensor), 0.0F);
}

}  // namespace trainyard::engine
