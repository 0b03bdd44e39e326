#include "trainer/ops/batch_norm.h"

#include <fmt/format.h>

#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"
#include "trainer/ops/expect.h"

namespace trainyard::engine {

absl::StatusOr<std::vector<ValueSpec>> InferBatchNorm(const BatchNormOp& op, std::span<const ValueSpec> inputs) {
  TY_CHECK(inputs.size() == 5);
  if (!(op.momentum >= 0.0f && op.momentum < 1.0f)) {
    return absl::InvalidArgumentError(fmt::format("momentum is {}, expected a number of at least 0 and below 1", op.momentum));
  }
  if (!(op.epsilon > 0.0f)) return absl::InvalidArgumentError(fmt::format("epsilon is {}, expected a number above 0", op.epsilon));
  TY_RETURN_IF_ERROR(ExpectBatchOfVectors("input", inputs[0]));
  const Shape channels{inputs[0].shape[-1]};
  TY_RETURN_IF_ERROR(ExpectWeights("gamma", inputs[1], channels, "[channels]"));
  TY_RETURN_IF_ERROR(ExpectWeights("beta", inputs[2], channels, "[channels]"));
  TY_RETURN_IF_ERROR(ExpectWeights("moving mean", inputs[3], channels, "[channels]"));
  TY_RETURN_IF_ERROR(ExpectWeights("moving variance", inputs[4], channels, "[channels]"));
  std::vector<ValueSpec> outputs(5, inputs[1]);
  outputs[0] = inputs[0];
  return outputs;
}

// Forward: two sums of three operations, then a multiply-add and relu. Backward: x's place, two
// sums, then three operations.
int64_t OpFlops(const BatchNormOp& op, const NodeView& node) {
  return node.out().shape.elements() * ((op.relu ? 6 : 5) - (op.moments ? 3 : 0));
}
int64_t OpFlops(const BatchNormGradientOp& op, const NodeView& node) {
  return node.out().shape.elements() * ((op.relu ? 12 : 8) + (op.add ? 1 : 0));
}

void AddGradient(const BatchNormOp& op, GradientContext& context) {
  TY_CHECK(!context.output_gradient(1).valid() && !context.output_gradient(2).valid());  // nothing flows back through what a step leaves
  const ValueSpec x = context.spec(context.input(0));
  const ValueSpec vector = context.spec(context.input(1));
  std::vector<Value> inputs = {context.output_gradient(), context.input(0),  context.input(1),
                               context.input(2),          context.output(3), context.output(4)};
  const Value other = context.TakeEarlierGradient(0);
  if (other.valid()) inputs.push_back(other);
  const NodeId gradient =
      context.Add("input", BatchNormGradientOp{.relu = op.relu, .add = other.valid()}, std::move(inputs), {x, vector, vector});
  context.SetInputGradient(0, {gradient, 0});
  context.SetInputGradient(1, {gradient, 1});
  context.SetInputGradient(2, {gradient, 2});
}

}  // namespace trainyard::engine
