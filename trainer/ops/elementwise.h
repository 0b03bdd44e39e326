// Ops whose outputs follow their inputs element by element: bias, activations, add, reshape,
// identity, relayout.
#pragma once

#include <span>

#include "absl/status/statusor.h"
#include "trainer/graph/node_view.h"
#include "trainer/ops/gradient_context.h"

namespace trainyard::engine {

// x [N, .., D], bias [D] → x's spec
absl::StatusOr<ValueSpec> InferBias(const ValueSpec& x, const ValueSpec& bias);
// Two or more values of one spec → that spec
absl::StatusOr<ValueSpec> InferAdd(std::span<const ValueSpec> terms);
// The same elements; a batched value keeps axis 0.
absl::StatusOr<ValueSpec> InferReshape(const ValueSpec& x, const Shape& shape);

int64_t OpFlops(const BiasOp& op, const NodeView& node);
int64_t OpFlops(const BiasGradientOp& op, const NodeView& node);
int64_t OpFlops(const ActivationOp& op, const NodeView& node);
int64_t OpFlops(const ActivationGradientOp& op, const NodeView& node);
int64_t OpFlops(const AddOp& op, const NodeView& node);
void AddGradient(const BiasOp& op, GradientContext& context);
void AddGradient(const ActivationOp& op, GradientContext& context);
void AddGradient(const AddOp& op, GradientContext& context);
void AddGradient(const RelayoutOp& op, GradientContext& context);
void AddGradient(const ReshapeOp& op, GradientContext& context);
void AddGradient(const IdentityOp& op, GradientContext& context);

}  // namespace trainyard::engine
