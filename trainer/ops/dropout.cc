#include "trainer/ops/dropout.h"

#include <fmt/format.h>

#include "trainer/base/status_macros.h"
#include "trainer/ops/expect.h"

namespace trainyard::engine {

absl::Status CheckDropout(const DropoutOp& op, const ValueSpec& x) {
  if (!(op.rate >= 0.0f && op.rate < 1.0f)) {
    return absl::InvalidArgumentError(fmt::format("rate is {}, expected a number of at least 0 and below 1", op.rate));
  }
  return ExpectBatchOfVectors("input", x);
}

int64_t OpFlops(const DropoutOp&, const NodeView& node) { return node.out().shape.elements(); }

void AddGradient(const DropoutOp& op, GradientContext& context) {
  const ValueSpec spec = context.spec(context.input(0));
  context.SetInputGradient(0, {context.Add("input", op, {context.output_gradient()}, {spec}), 0});
}

}  // namespace trainyard::engine
