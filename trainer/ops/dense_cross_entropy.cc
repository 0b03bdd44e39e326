#include "trainer/ops/dense_cross_entropy.h"

#include <utility>
#include <vector>

#include "trainer/base/check.h"

namespace trainyard::engine {

// Of each logit its product, its bias, an exponential and a sum.
int64_t OpFlops(const DenseCrossEntropyOp& op, const NodeView& node) {
  const int64_t logits = node.out(DenseCrossEntropyOutputs::kTerms).shape.elements();
  return logits * (2 * node.in(1).shape[0] + (op.bias ? 3 : 2));
}

int64_t OpFlops(const DenseCrossEntropyInputGradientOp&, const NodeView& node) {
  return 2 * node.in(0).shape.elements() * node.in(2).shape[0] + node.out().shape.elements();
}

int64_t OpFlops(const DenseCrossEntropyWeightGradientOp& op, const NodeView& node) {
  const int64_t terms = node.in(1).shape.elements();
  return 2 * terms * node.in(0).shape[-1] + (op.bias ? 2 * terms : 0) + node.in(0).shape.elements();
}

void AddGradient(const DenseCrossEntropyOp& op, GradientContext& context) {
  using Outputs = DenseCrossEntropyOutputs;
  TY_CHECK(!context.output_gradient(Outputs::kTerms).valid() && !context.output_gradient(Outputs::kFactors).valid());
  const Value x = context.input(0);
  const Value w = context.input(1);
  const Value terms = context.output(Outputs::kTerms);
  const Value factors = context.output(Outputs::kFactors);
  const Value dloss = context.output_gradient(Outputs::kLoss);
  const bool bias = op.bias && context.wants(2);
  if (context.wants(1) || bias) {
    std::vector<ValueSpec> outputs = {context.spec(w)};
    if (bias) outputs.push_back(context.spec(context.input(2)));
    const NodeId weights = context.Add("weights", DenseCrossEntropyWeightGradientOp{bias}, {x, terms, factors, dloss}, std::move(outputs));
    context.SetInputGradient(1, {weights, 0});
    if (bias) context.SetInputGradient(2, {weights, 1});
  }
  if (!context.wants(0)) return;
  const ValueSpec spec = context.spec(x);
  context.SetInputGradient(0, {context.Add("input", DenseCrossEntropyInputGradientOp{}, {terms, factors, w, dloss}, {spec}), 0});
}

}  // namespace trainyard::engine
