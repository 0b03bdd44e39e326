// A dense layer and the cross-entropy of its outputs as one node. A backend makes it of two
// (DenseCrossEntropyOp), so there is no shape rule: both were checked before.
#pragma once

#include "trainer/graph/node_view.h"
#include "trainer/ops/gradient_context.h"

namespace trainyard::engine {

// The outputs of DenseCrossEntropyOp.
struct DenseCrossEntropyOutputs {
  static constexpr int kLoss = 0, kTerms = 1, kFactors = 2, kCorrect = 3;
};

int64_t OpFlops(const DenseCrossEntropyOp& op, const NodeView& node);
int64_t OpFlops(const DenseCrossEntropyInputGradientOp& op, const NodeView& node);
int64_t OpFlops(const DenseCrossEntropyWeightGradientOp& op, const NodeView& node);
void AddGradient(const DenseCrossEntropyOp& op, GradientContext& context);

}  // namespace trainyard::engine
