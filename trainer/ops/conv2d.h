// Two-dimensional convolution (cross-correlation, as in every framework) of NHWC images with HWIO
// kernels.
#pragma once

#include "absl/status/statusor.h"
#include "trainer/graph/node_view.h"
#include "trainer/ops/gradient_context.h"

namespace trainyard::engine {

// x [N, H, W, C], kernel [Kh, Kw, C, D], whose first two extents are the window's size → [N, Ho,
// Wo, D]
absl::StatusOr<ValueSpec> InferConv2d(const Window& window, const ValueSpec& x, const ValueSpec& kernel);

int64_t OpFlops(const Conv2dOp& op, const NodeView& node);
int64_t OpFlops(const Conv2dInputGradientOp& op, const NodeView& node);
int64_t OpFlops(const Conv2dWeightGradientOp& op, const NodeView& node);
int64_t OpFlops(const PooledConv2dWeightGradientOp& op, const NodeView& node);
void AddGradient(const Conv2dOp& op, GradientContext& context);

}  // namespace trainyard::engine
