#include <algorithm>

#include "trainer/backend/reference/kernels.h"
#include "trainer/backend/row_gradient.h"

namespace trainyard::engine::reference {

template <typename T>
RunFunction MakeRun(const EmbeddingOp&, const NodeView& node) {
  return [count = node.in(0).shape.elements(), width = node.in(1).shape[1]](const KernelContext& context) {
    const auto* ids = context.input<int32_t>(0);
    for (int64_t i = 0; i < count; ++i) std::copy_n(context.input<T>(1) + ids[i] * width, width, context.output<T>(0) + i * width);
  };
}

template <typename T>
RunFunction MakeRun(const EmbeddingGradientOp&, const NodeView& node) {
  return [count = node.in(0).shape.elements(), width = node.out().shape[1],
          elements = node.out().shape.elements()](const KernelContext& context) {
    const auto* ids = context.input<int32_t>(0);
    const T* dy = context.input<T>(1);
    BeginRowGradient(std::span(ids, count), std::span(context.output<T>(0), elements), width, context.touched_rows);
    for (int64_t i = 0; i < count; ++i) {
      T* row = context.output<T>(0) + ids[i] * width;
      for (int64_t c = 0; c < width; ++c) row[c] += dy[i * width + c];
    }
  };
}

template RunFunction MakeRun<float>(const EmbeddingOp&, const NodeView&);
template RunFunction MakeRun<double>(const EmbeddingOp&, const NodeView&);
template RunFunction MakeRun<float>(const EmbeddingGradientOp&, const NodeView&);
template RunFunction MakeRun<double>(const EmbeddingGradientOp&, const NodeView&);

}  // namespace trainyard::engine::reference
