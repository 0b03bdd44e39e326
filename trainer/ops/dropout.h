// Inverted dropout with counter-based random numbers (ops/philox.h). The mask is never stored: the
// gradient draws it again.
#pragma once

#include "absl/status/status.h"
#include "trainer/graph/node_view.h"
#include "trainer/ops/gradient_context.h"

namespace trainyard::engine {

// InvalidArgument unless 0 <= rate < 1.
absl::Status CheckDropout(const DropoutOp& op, const ValueSpec& x);
int64_t OpFlops(const DropoutOp& op, const NodeView& node);
void AddGradient(const DropoutOp& op, GradientContext& context);

}  // namespace trainyard::engine
