#include <algorithm>
#include <vector>

#include "trainer/backend/reference/kernels.h"

namespace trainyard::engine::reference {

template <typename T>
RunFunction MakeRun(const ConcatOp&, const NodeView& node) {
  std::vector<int64_t> widths;
  for (int i = 0; i < node.input_count(); ++i) widths.push_back(node.in(i).shape[-1]);
  return [widths, rows = node.out().shape.elements() / node.out().shape[-1]](const KernelContext& context) {
    T* y = context.output<T>(0);
    for (int64_t row = 0; row < rows; ++row) {
      for (size_t i = 0; i < widths.size(); ++i) {
        y = std::copy_n(context.input<T>(static_cast<int>(i)) + row * widths[i], widths[i], y);
      }
    }
  };
}

template <typename T>
RunFunction MakeRun(const SliceOp& op, const NodeView& node) {
  return [begin = op.begin, from = node.in(0).shape[-1], to = node.out().shape[-1],
          rows = node.out().shape.elements() / node.out().shape[-1]](const KernelContext& context) {
    for (int64_t row = 0; row < rows; ++row) {
      std::copy_n(context.input<T>(0) + row * from + begin, to, context.output<T>(0) + row * to);
    }
  };
}

// Everything is row-major here.
template <typename T>
RunFunction MakeRun(const RelayoutOp&, const NodeView& node) {
  return [elements = node.out().shape.elements()](const KernelContext& context) {
    std::copy_n(context.input<T>(0), elements, context.output<T>(0));
  };
}

template RunFunction MakeRun<float>(const ConcatOp&, const NodeView&);
template RunFunction MakeRun<double>(const ConcatOp&, const NodeView&);
template RunFunction MakeRun<float>(const SliceOp&, const NodeView&);
template RunFunction MakeRun<double>(const SliceOp&, const NodeView&);
template RunFunction MakeRun<float>(const RelayoutOp&, const NodeView&);
template RunFunction MakeRun<double>(const RelayoutOp&, const NodeView&);

}  // namespace trainyard::engine::reference
