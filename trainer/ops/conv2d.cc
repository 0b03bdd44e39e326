#include "trainer/ops/conv2d.h"

#include <fmt/format.h>

#include "trainer/base/status_macros.h"
#include "trainer/graph/window.h"
#include "trainer/ops/epilogue.h"
#include "trainer/ops/expect.h"

namespace trainyard::engine {
namespace {

// Multiply-adds count two; those on padding are counted too.
int64_t ProductFlops(int64_t z_elements, const Shape& kernel) { return 2 * z_elements * kernel[0] * kernel[1] * kernel[2]; }

}  // namespace

absl::StatusOr<ValueSpec> InferConv2d(const Window& window, const ValueSpec& x, const ValueSpec& kernel) {
  TY_RETURN_IF_ERROR(ExpectImages("input", x));
  const int64_t filters = kernel.shape.rank() == 4 ? kernel.shape[3] : 0;
  TY_RETURN_IF_ERROR(
      ExpectWeights("kernel", kernel, {window.size[0], window.size[1], x.shape[3], filters}, "[height, width, input channels, filters]"));
  TY_ASSIGN_OR_RETURN(const WindowGeometry geometry, PlaceWindow(window, x.shape));
  ValueSpec z = x;
  z.shape = {x.shape[0], geometry.out[0], geometry.out[1], filters};
  return z;
}

int64_t OpFlops(const Conv2dOp& op, const NodeView& node) {
  const absl::StatusOr<ValueSpec> z = InferConv2d(op.window, node.in(0), node.in(1));
  TY_CHECK(z.ok());
  const int64_t z_elements = z->shape.elements();
  return ProductFlops(z_elements, node.in(1).shape) + EpilogueFlops(op.epilogue, z_elements, node.out().shape.elements());
}

int64_t OpFlops(const Conv2dInputGradientOp&, const NodeView& node) { return ProductFlops(node.in(0).shape.elements(), node.in(1).shape); }

int64_t OpFlops(const Conv2dWeightGradientOp& op, const NodeView& node) {
  const int64_t dz_elements = node.in(1).shape.elements();
  return ProductFlops(dz_elements, node.out().shape) + (op.bias ? dz_elements : 0);
}

int64_t OpFlops(const PooledConv2dWeightGradientOp& op, const NodeView& node) {
  const absl::StatusOr<ValueSpec> z = InferConv2d(op.window, node.in(0), node.out());
  TY_CHECK(z.ok());
  const int64_t z_elements = z->shape.elements();
  return ProductFlops(z_elements, node.out().shape) + (op.bias ? z_elements : 0);
}

void AddGradient(const Conv2dOp& op, GradientContext& context) {
  const Value x = context.input(0);
  const Value w = context.input(1);
  const ValueSpec x_spec = context.spec(x);
  const ValueSpec w_spec = context.spec(w);
  const Epilogue& epilogue = op.epilogue;
  const bool bias = epilogue.bias && context.wants(2);
  const bool weights = context.wants(1) || bias;
  std::vector<ValueSpec> gradients = {w_spec};
  if (bias) gradients.push_back(context.spec(context.input(2)));
  const auto set_gradients = [&](NodeId node) {
    context.SetInputGradient(1, {node, 0});
    if (bias) context.SetInputGradient(2, {node, 1});
  };
  if (epilogue.unpool_in_weights && weights && !context.wants(0)) {
    std::vector<Value> inputs = {x, context.output_gradient(), context.output(1)};
    if (epilogue.activation != Activation::kIdentity) inputs.push_back(context.output(0));
    const PooledConv2dWeightGradientOp pooled{op.window, bias, *epilogue.max_pool, epilogue.activation};
    return set_gradients(context.Add("weights", pooled, std::move(inputs), std::move(gradients)));
  }
  absl::StatusOr<ValueSpec> z_spec = InferConv2d(op.window, x_spec, w_spec);
  TY_CHECK(z_spec.ok());
  z_spec->narrow = epilogue.narrow_before_pool || context.spec(context.output()).narrow;  // held as y, not as x
  const Value dz = EpilogueGradient(epilogue, *z_spec, context);
  if (weights) set_gradients(context.Add("weights", Conv2dWeightGradientOp{op.window, bias}, {x, dz}, std::move(gradients)));
  if (epilogue.add) context.SetInputGradient(context.input_count() - 1, dz);
  if (context.wants(0)) context.SetInputGradient(0, {context.Add("input", Conv2dInputGradientOp{op.window}, {dz, w}, {x_spec}), 0});
}

}  // namespace trainyard::engine
