#include "trainer/ops/mean_squared_error.h"

#include "trainer/base/status_macros.h"
#include "trainer/ops/expect.h"

namespace trainyard::engine {

absl::StatusOr<ValueSpec> InferMeanSquaredError(const ValueSpec& prediction, const ValueSpec& target) {
  TY_RETURN_IF_ERROR(ExpectSame("prediction", prediction, "target", target));
  return ValueSpec{};
}

int64_t OpFlops(const MeanSquaredErrorOp&, const NodeView& node) { return 3 * node.in(0).shape.elements(); }
int64_t OpFlops(const MeanSquaredErrorGradientOp&, const NodeView& node) { return 2 * node.out().shape.elements(); }

void AddGradient(const MeanSquaredErrorOp&, GradientContext& context) {
  const ValueSpec spec = context.spec(context.input(0));
  const Value loss_gradient = context.output_gradient();
  // Symmetric: the target's gradient is the prediction's with the two exchanged.
  for (int i : {0, 1}) {
    if (!context.wants(i)) continue;
    const NodeId gradient = context.Add(i == 0 ? "prediction" : "target", MeanSquaredErrorGradientOp{},
                                        {context.input(i), context.input(1 - i), loss_gradient}, {spec});
    context.SetInputGradient(i, {gradient, 0});
  }
}

}  // namespace trainyard::engine
