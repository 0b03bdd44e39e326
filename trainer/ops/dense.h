// Dense layers: y = x w over the last axis, so a sequence [N, T, C] is a time-distributed dense
// layer.
#pragma once

#include "absl/status/statusor.h"
#include "trainer/graph/node_view.h"
#include "trainer/ops/gradient_context.h"

namespace trainyard::engine {

// x [N, .., C], kernel [C, D] → [N, .., D]
absl::StatusOr<ValueSpec> InferDense(const ValueSpec& x, const ValueSpec& kernel);

int64_t OpFlops(const DenseOp& op, const NodeView& node);
int64_t OpFlops(const DenseInputGradientOp& op, const NodeView& node);
int64_t OpFlops(const DenseWeightGradientOp& op, const NodeView& node);
void AddGradient(const DenseOp& op, GradientContext& context);

}  // namespace trainyard::engine
