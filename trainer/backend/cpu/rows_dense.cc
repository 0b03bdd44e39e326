#include "trainer/backend/cpu/rows_dense.h"

#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/make_kernel.h"
#include "trainer/backend/cpu/rows_product.h"

namespace trainyard::engine {
namespace {

size_t ScratchBytes(const RowsProduct& product, const CpuDevice& device) {
  return RowsProductScratchFloats(product, device) * sizeof(float);
}

int64_t RowCount(const Shape& shape) { return shape.elements() / shape[-1]; }

}  // namespace

CompiledKernel CompileRows(CpuDevice& device, const NodeView& node, const DenseOp& op) {
  RowsProduct product;
  product.rows = RowCount(node.in(0).shape);
  product.k = product.a_row = node.in(1).shape[0];
  product.columns = product.b_row = product.c_row = node.in(1).shape[1];
  return MakeKernel(
      [&device, product, bias = op.epilogue.bias, activation = op.epilogue.activation](const KernelContext& context) mutable {
        product.a = context.input<float>(0);
        product.b = context.input<float>(1);
        product.bias = bias ? context.input<float>(2) : nullptr;
        product.c = context.output<float>(0);
        RunRowsProduct(product, static_cast<float*>(context.scratch), device);
        if (activation == Activation::kIdentity) return;
        device.pool.Run(VectorsFor(product.rows * product.columns), [&](int64_t begin, int64_t end, int) {
          device.kernels.activate(product.c + begin * kLanes, product.c + begin * kLanes, end - begin, activation);
        });
      },
      ScratchBytes(product, device));
}

CompiledKernel CompileRows(CpuDevice& device, const NodeView& node, const DenseInputGradientOp&) {
  RowsProduct product;
  product.rows = RowCount(node.out().shape);
  product.columns = product.c_row = node.in(1).shape[0];
  product.k = product.a_row = product.b_row = node.in(1).shape[1];
  product.b_transposed = true;
  return MakeKernel(
      [&device, product](const KernelContext& context) mutable {
        product.a = context.input<float>(0);
        product.b = context.input<float>(1);
        product.c = context.output<float>(0);
        RunRowsProduct(product, static_cast<float*>(context.scratch), device);
      },
      ScratchBytes(product, device));
}

// Rows are the inputs, k counts samples and steps.
CompiledKernel CompileRows(CpuDevice& device, const NodeView& node, const DenseWeightGradientOp& op) {
  RowsProduct product;
  product.rows = product.a_k = node.out().shape[0];
  product.a_row = 1;
  product.columns = product.b_row = product.c_row = node.out().shape[1];
  product.k = RowCount(node.in(0).shape);
  return MakeKernel(
      [&device, product, bias = op.bias](const KernelContext& context) mutable {
        product.a = context.input<float>(0);
        product.b = context.input<float>(1);
        product.c = context.output<float>(0);
        product.b_sums = bias ? context.output<float>(1) : nullptr;
        RunRowsProduct(product, static_cast<float*>(context.scratch), device);
      },
      ScratchBytes(product, device));
}

}  // namespace trainyard::engine
