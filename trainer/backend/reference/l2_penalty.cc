#include <vector>

#include "trainer/backend/reference/kernels.h"

namespace trainyard::engine::reference {

template <typename T>
RunFunction MakeRun(const L2PenaltyOp& op, const NodeView& node) {
  std::vector<int64_t> elements;
  for (int i = 1; i < node.input_count(); ++i) elements.push_back(node.in(i).shape.elements());
  return [op, elements](const KernelContext& context) {
    T sum{0};
    for (size_t k = 0; k < elements.size(); ++k) {
      const T* weights = context.input<T>(static_cast<int>(k) + 1);
      for (int64_t i = 0; i < elements[k]; ++i) sum += weights[i] * weights[i];
    }
    *context.output<T>(0) = *context.input<T>(0) + static_cast<T>(op.l2) * sum;
  };
}

template <typename T>
RunFunction MakeRun(const L2PenaltyGradientOp& op, const NodeView& node) {
  return [op, elements = node.out().shape.elements()](const KernelContext& context) {
    const T* weights = context.input<T>(0);
    const T factor = T{2} * static_cast<T>(op.l2) * *context.input<T>(1);
    for (int64_t i = 0; i < elements; ++i) context.output<T>(0)[i] = factor * weights[i];
  };
}

template RunFunction MakeRun<float>(const L2PenaltyOp&, const NodeView&);
template RunFunction MakeRun<double>(const L2PenaltyOp&, const NodeView&);
template RunFunction MakeRun<float>(const L2PenaltyGradientOp&, const NodeView&);
template RunFunction MakeRun<double>(const L2PenaltyGradientOp&, const NodeView&);

}  // namespace trainyard::engine::reference
