// Batch normalisation (Ioffe and Szegedy 2015), over all axes but the last.
#pragma once

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/graph/node_view.h"
#include "trainer/ops/gradient_context.h"

namespace trainyard::engine {

// x, gamma, beta, moving mean and moving variance → the op's five outputs. momentum lies in [0, 1),
// epsilon above 0.
absl::StatusOr<std::vector<ValueSpec>> InferBatchNorm(const BatchNormOp& op, std::span<const ValueSpec> inputs);

int64_t OpFlops(const BatchNormOp& op, const NodeView& node);
int64_t OpFlops(const BatchNormGradientOp& op, const NodeView& node);
void AddGradient(const BatchNormOp& op, GradientContext& context);

}  // namespace trainyard::engine
