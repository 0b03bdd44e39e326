// Max and average pooling of NHWC images.
#pragma once

#include "absl/status/statusor.h"
#include "trainer/graph/node_view.h"
#include "trainer/ops/gradient_context.h"

namespace trainyard::engine {

// Elements that a max-pool window may have at most, as a place in it is kept in one byte.
inline constexpr int kMaxPoolElements = 256;

// x [N, H, W, C] → [N, Ho, Wo, C]
absl::StatusOr<ValueSpec> InferPool(const Window& window, const ValueSpec& x);
// y and argmax; the window has at most kMaxPoolElements.
absl::StatusOr<std::vector<ValueSpec>> InferMaxPool(const Window& window, const ValueSpec& x);

int64_t OpFlops(const MaxPoolOp& op, const NodeView& node);
int64_t OpFlops(const MaxPoolGradientOp& op, const NodeView& node);
int64_t OpFlops(const AvgPoolOp& op, const NodeView& node);
int64_t OpFlops(const AvgPoolGradientOp& op, const NodeView& node);
void AddGradient(const MaxPoolOp& op, GradientContext& context);
void AddGradient(const AvgPoolOp& op, GradientContext& context);

}  // namespace trainyard::engine
