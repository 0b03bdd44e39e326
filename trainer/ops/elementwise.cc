#include "trainer/ops/elementwise.h"

#include <fmt/format.h>

#include "trainer/base/status_macros.h"
#include "trainer/ops/expect.h"

namespace trainyard::engine {

absl::StatusOr<ValueSpec> InferBias(const ValueSpec& x, const ValueSpec& bias) {
  TY_RETURN_IF_ERROR(ExpectBatchOfVectors("input", x));
  TY_RETURN_IF_ERROR(ExpectWeights("bias", bias, {x.shape[-1]}, "[channels]"));
  return x;
}

absl::StatusOr<ValueSpec> InferAdd(std::span<const ValueSpec> terms) {
  if (terms.size() < 2) return absl::InvalidArgumentError(fmt::format("found {} inputs, expected two or more", terms.size()));
  for (size_t i = 1; i < terms.size(); ++i) TY_RETURN_IF_ERROR(ExpectSame("input 0", terms[0], fmt::format("input {}", i), terms[i]));
  return terms[0];
}

absl::StatusOr<ValueSpec> InferReshape(const ValueSpec& x, const Shape& shape) {
  ValueSpec y = x;
  y.shape = shape;
  if (shape.elements() != x.shape.elements()) {
    return absl::InvalidArgumentError(fmt::format("input of shape {} has {} elements, the new shape {} has {}, expected the same number",
                                                  x.shape.ToString(), x.shape.elements(), shape.ToString(), shape.elements()));
  }
  if (x.batched && (shape.rank() == 0 || shape[0] != x.shape[0])) {
    return absl::InvalidArgumentError(
        fmt::format("the new shape {} must keep the input's batch of {} as its first extent", shape.ToString(), x.shape[0]));
  }
  return y;
}

int64_t OpFlops(const BiasOp&, const NodeView& node) { return node.out().shape.elements(); }
int64_t OpFlops(const BiasGradientOp&, const NodeView& node) { return node.in(0).shape.elements(); }
int64_t OpFlops(const ActivationOp&, const NodeView& node) { return node.out().shape.elements(); }
int64_t OpFlops(const ActivationGradientOp&, const NodeView& node) { return 3 * node.out().shape.elements(); }
int64_t OpFlops(const AddOp&, const NodeView& node) { return (node.input_count() - 1) * node.out().shape.elements(); }

void AddGradient(const BiasOp&, GradientContext& context) {
  const Value dy = context.output_gradient();
  if (context.wants(1)) context.SetInputGradient(1, {context.Add("bias", BiasGradientOp{}, {dy}, {context.spec(context.input(1))}), 0});
  context.SetInputGradient(0, dy);
}

void AddGradient(const ActivationOp& op, GradientContext& context) {
  const ValueSpec spec = context.spec(context.input(0));
  const NodeId dx = context.Add("input", ActivationGradientOp{op.activation}, {context.output_gradient(), context.output()}, {spec});
  context.SetInputGradient(0, {dx, 0});
}

void AddGradient(const AddOp&, GradientContext& context) {
  for (int i = 0; i < context.input_count(); ++i) context.SetInputGradient(i, context.output_gradient());
}

void AddGradient(const RelayoutOp&, GradientContext& context) {
  const ValueSpec spec = context.spec(context.input(0));
  context.SetInputGradient(0, {context.Add("input", RelayoutOp{}, {context.output_gradient()}, {spec}), 0});
}

void AddGradient(const ReshapeOp&, GradientContext& context) {
  const ValueSpec spec = context.spec(context.input(0));
  context.SetInputGradient(0, {context.Add("input", ReshapeOp{}, {context.output_gradient()}, {spec}), 0});
}

void AddGradient(const IdentityOp&, GradientContext& context) { context.SetInputGradient(0, context.output_gradient()); }

}  // namespace trainyard::engine
