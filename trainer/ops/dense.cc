#include "trainer/ops/dense.h"

#include <fmt/format.h>

#include "trainer/base/status_macros.h"
#include "trainer/ops/epilogue.h"
#include "trainer/ops/expect.h"

namespace trainyard::engine {
namespace {

ValueSpec ProductSpec(const ValueSpec& x, const ValueSpec& kernel) {
  ValueSpec z = x;
  z.shape.Set(-1, kernel.shape[1]);
  return z;
}

}  // namespace

absl::StatusOr<ValueSpec> InferDense(const ValueSpec& x, const ValueSpec& kernel) {
  TY_RETURN_IF_ERROR(ExpectBatchOfVectors("input", x));
  const int64_t units = kernel.shape.rank() == 2 ? kernel.shape[1] : 0;
  TY_RETURN_IF_ERROR(ExpectWeights("kernel", kernel, {x.shape[-1], units}, "[inputs, units]"));
  return ProductSpec(x, kernel);
}

int64_t OpFlops(const DenseOp& op, const NodeView& node) {
  const int64_t z_elements = node.out().shape.elements();
  return 2 * z_elements * node.in(1).shape[0] + EpilogueFlops(op.epilogue, z_elements, z_elements);
}

int64_t OpFlops(const DenseInputGradientOp&, const NodeView& node) { return 2 * node.in(0).shape.elements() * node.in(1).shape[0]; }

int64_t OpFlops(const DenseWeightGradientOp& op, const NodeView& node) {
  const int64_t dz_elements = node.in(1).shape.elements();
  return 2 * dz_elements * node.in(0).shape[-1] + (op.bias ? dz_elements : 0);
}

void AddGradient(const DenseOp& op, GradientContext& context) {
  const Value x = context.input(0);
  const Value w = context.input(1);
  const ValueSpec x_spec = context.spec(x);
  const ValueSpec w_spec = context.spec(w);
  const bool bias = op.epilogue.bias && context.wants(2);
  ValueSpec z_spec = ProductSpec(x_spec, w_spec);
  z_spec.narrow = context.spec(context.output()).narrow;  // held as y, not as x
  const Value dz = EpilogueGradient(op.epilogue, z_spec, context);
  if (context.wants(1) || bias) {
    std::vector<ValueSpec> outputs = {w_spec};
    if (bias) outputs.push_back(context.spec(context.input(2)));
    const NodeId weights = context.Add("weights", DenseWeightGradientOp{bias}, {x, dz}, std::move(outputs));
    context.SetInputGradient(1, {weights, 0});
    if (bias) context.SetInputGradient(2, {weights, 1});
  }
  if (context.wants(0)) context.SetInputGradient(0, {context.Add("input", DenseInputGradientOp{}, {dz, w}, {x_spec}), 0});
}

}  // namespace trainyard::engine
