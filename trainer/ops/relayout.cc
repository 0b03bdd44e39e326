#include "trainer/ops/relayout.h"

#include "trainer/base/status_macros.h"
#include "trainer/ops/expect.h"

namespace trainyard::engine {

absl::StatusOr<ValueSpec> InferRelayout(const ValueSpec& x) {
  TY_RETURN_IF_ERROR(ExpectBatchOfVectors("input", x));
  ValueSpec y = x;
  y.rows = !x.rows;
  return y;
}

void AddGradient(const RelayoutOp&, GradientContext& context) {
  const ValueSpec spec = context.spec(context.input(0));
  context.SetInputGradient(0, {context.Add("input", RelayoutOp{}, {context.output_gradient()}, {spec}), 0});
}

}  // namespace trainyard::engine
