#include <Eigen/Core>

#include "trainer/backend/reference/kernels.h"

namespace trainyard::engine::reference {
namespace {

template <typename T>
using Matrix = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;
template <typename T>
using ConstMatrix = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>;

// x [rows, inputs], w [inputs, units], z [rows, units]
struct DenseSizes {
  int64_t rows;
  int64_t inputs;
  int64_t units;
};

DenseSizes SizesOf(const Shape& x, int64_t units) { return {x.elements() / x[-1], x[-1], units}; }

}  // namespace

// lazyProduct sums coefficient by coefficient: unlike a blocked product it needs no temporary
// memory.
template <typename T>
RunFunction MakeRun(const DenseOp& op, const NodeView& node) {
  const DenseSizes n = SizesOf(node.in(0).shape, node.in(1).shape[1]);
  return [n, epilogue = op.epilogue](const KernelContext& context) {
    T* y = context.output<T>(0);
    const ConstMatrix<T> x(context.input<T>(0), n.rows, n.inputs);
    const ConstMatrix<T> w(context.input<T>(1), n.inputs, n.units);
    Matrix<T>(y, n.rows, n.units) = x.lazyProduct(w);
    if (epilogue.bias) AddBias(n.rows, n.units, y, context.input<T>(2), y);
    for (int64_t i = 0; i < n.rows * n.units; ++i) y[i] = Activate(epilogue.activation, y[i]);
  };
}

template <typename T>
RunFunction MakeRun(const DenseInputGradientOp&, const NodeView& node) {
  const DenseSizes n = SizesOf(node.out().shape, node.in(1).shape[1]);
  return [n](const KernelContext& context) {
    const ConstMatrix<T> dz(context.input<T>(0), n.rows, n.units);
    const ConstMatrix<T> w(context.input<T>(1), n.inputs, n.units);
    Matrix<T>(context.output<T>(0), n.rows, n.inputs) = dz.lazyProduct(w.transpose());
  };
}

template <typename T>
RunFunction MakeRun(const DenseWeightGradientOp& op, const NodeView& node) {
  const DenseSizes n = SizesOf(node.in(0).shape, node.in(1).shape[-1]);
  return [n, bias = op.bias](const KernelContext& context) {
    const ConstMatrix<T> x(context.input<T>(0), n.rows, n.inputs);
    const ConstMatrix<T> dz(context.input<T>(1), n.rows, n.units);
    Matrix<T>(context.output<T>(0), n.inputs, n.units) = x.transpose().lazyProduct(dz);
    if (bias && context.output<T>(1) != nullptr) SumRows(n.rows, n.units, dz.data(), context.output<T>(1));
  };
}

template RunFunction MakeRun<float>(const DenseOp&, const NodeView&);
template RunFunction MakeRun<double>(const DenseOp&, const NodeView&);
template RunFunction MakeRun<float>(const DenseInputGradientOp&, const NodeView&);
template RunFunction MakeRun<double>(const DenseInputGradientOp&, const NodeView&);
template RunFunction MakeRun<float>(const DenseWeightGradientOp&, const NodeView&);
template RunFunction MakeRun<double>(const DenseWeightGradientOp&, const NodeView&);

}  // namespace trainyard::engine::reference
