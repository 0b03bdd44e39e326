// Mean squared error over all elements, as Keras' mean over the last axis and then over the batch.
#pragma once

#include "absl/status/statusor.h"
#include "trainer/graph/node_view.h"
#include "trainer/ops/gradient_context.h"

namespace trainyard::engine {

// → loss []
absl::StatusOr<ValueSpec> InferMeanSquaredError(const ValueSpec& prediction, const ValueSpec& target);
int64_t OpFlops(const MeanSquaredErrorOp& op, const NodeView& node);
int64_t OpFlops(const MeanSquaredErrorGradientOp& op, const NodeView& node);
void AddGradient(const MeanSquaredErrorOp& op, GradientContext& context);

}  // namespace trainyard::engine
