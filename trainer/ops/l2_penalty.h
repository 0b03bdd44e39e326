// Weight decay as a term of the loss (Keras' l2 regularizer): its gradient adds to the weights'
// own.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "trainer/graph/node_view.h"
#include "trainer/ops/gradient_context.h"

namespace trainyard::engine {

// A loss (a scalar), then one or more weights; l2 is finite and above 0.
absl::Status CheckL2Penalty(float l2, std::span<const ValueSpec> inputs);

int64_t OpFlops(const L2PenaltyOp& op, const NodeView& node);
int64_t OpFlops(const L2PenaltyGradientOp& op, const NodeView& node);
void AddGradient(const L2PenaltyOp& op, GradientContext& context);

}  // namespace trainyard::engine
