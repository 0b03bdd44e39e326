#include "trainer/ops/l2_penalty.h"

#include <fmt/format.h>

#include <cmath>

#include "trainer/base/status_macros.h"
#include "trainer/ops/expect.h"

namespace trainyard::engine {

absl::Status CheckL2Penalty(float l2, std::span<const ValueSpec> inputs) {
  if (!(std::isfinite(l2) && l2 > 0.0f)) return absl::InvalidArgumentError(fmt::format("l2 is {}, expected a number above 0", l2));
  if (inputs.size() < 2) return absl::InvalidArgumentError("found no weights, expected one or more");
  if (inputs[0] != ValueSpec{}) {
    return absl::InvalidArgumentError(
        fmt::format("the loss has shape {}, expected one real number (shape [])", inputs[0].shape.ToString()));
  }
  for (const ValueSpec& weights : inputs.subspan(1)) {
    TY_RETURN_IF_ERROR(ExpectReal("weights", weights));
    if (weights.batched) return absl::InvalidArgumentError("found a batch of samples as weights, expected a parameter");
  }
  return absl::OkStatus();
}

int64_t OpFlops(const L2PenaltyOp&, const NodeView& node) {
  int64_t flops = 2;
  for (int i = 1; i < node.input_count(); ++i) flops += 2 * node.in(i).shape.elements();
  return flops;
}
int64_t OpFlops(const L2PenaltyGradientOp&, const NodeView& node) { return node.out().shape.elements(); }

void AddGradient(const L2PenaltyOp& op, GradientContext& context) {
  context.SetInputGradient(0, context.output_gradient());
  for (int i = 1; i < context.input_count(); ++i) {
    if (!context.wants(i)) continue;
    const ValueSpec weights = context.spec(context.input(i));
    const NodeId gradient =
        context.Add(fmt::format("weights{}", i - 1), L2PenaltyGradientOp{op.l2}, {context.input(i), context.output_gradient()}, {weights});
    context.SetInputGradient(i, {gradient, 0});
  }
}

}  // namespace trainyard::engine
