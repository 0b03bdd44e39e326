// Softmax over the last axis, and its cross-entropy with integer labels.
#pragma once

#include "absl/status/statusor.h"
#include "trainer/graph/node_view.h"
#include "trainer/ops/gradient_context.h"

namespace trainyard::engine {

// labels are integers of shape x.shape without its last extent.
absl::Status CheckLabels(const ValueSpec& x, const ValueSpec& labels);
// loss [] and probabilities of logits' spec
absl::StatusOr<std::vector<ValueSpec>> InferSoftmaxCrossEntropy(const ValueSpec& logits, const ValueSpec& labels);

int64_t OpFlops(const SoftmaxOp& op, const NodeView& node);
int64_t OpFlops(const SoftmaxGradientOp& op, const NodeView& node);
int64_t OpFlops(const SoftmaxCrossEntropyOp& op, const NodeView& node);
int64_t OpFlops(const SoftmaxCrossEntropyGradientOp& op, const NodeView& node);
int64_t OpFlops(const CorrectCountOp& op, const NodeView& node);
void AddGradient(const SoftmaxOp& op, GradientContext& context);
void AddGradient(const SoftmaxCrossEntropyOp& op, GradientContext& context);

}  // namespace trainyard::engine
