#include "trainer/ops/softmax.h"

#include <fmt/format.h>

#include "trainer/base/status_macros.h"
#include "trainer/ops/expect.h"

namespace trainyard::engine {

absl::Status CheckLabels(const ValueSpec& x, const ValueSpec& labels) {
  TY_RETURN_IF_ERROR(ExpectBatchOfVectors("input", x));
  const Shape expected(x.shape.extents().first(static_cast<size_t>(x.shape.rank()) - 1));
  if (labels.dtype == DType::kI32 && labels.batched && labels.shape == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("labels are {} of shape {}, expected I32 of shape {}: one for each row of the input {}",
                                                DTypeName(labels.dtype), labels.shape.ToString(), expected.ToString(), x.shape.ToString()));
}

absl::StatusOr<std::vector<ValueSpec>> InferSoftmaxCrossEntropy(const ValueSpec& logits, const ValueSpec& labels) {
  TY_RETURN_IF_ERROR(CheckLabels(logits, labels));
  return std::vector<ValueSpec>{ValueSpec{}, logits};
}

// An element of a softmax: subtract, exponential, sum, divide; and a comparison for the maximum.
int64_t OpFlops(const SoftmaxOp&, const NodeView& node) { return 5 * node.out().shape.elements(); }
int64_t OpFlops(const SoftmaxGradientOp&, const NodeView& node) { return 4 * node.out().shape.elements(); }
int64_t OpFlops(const SoftmaxCrossEntropyOp&, const NodeView& node) { return 5 * node.in(0).shape.elements(); }
int64_t OpFlops(const SoftmaxCrossEntropyGradientOp&, const NodeView& node) { return 2 * node.out().shape.elements(); }
int64_t OpFlops(const CorrectCountOp&, const NodeView& node) { return node.in(0).shape.elements(); }

void AddGradient(const SoftmaxOp&, GradientContext& context) {
  const ValueSpec spec = context.spec(context.input(0));
  const NodeId dx = context.Add("input", SoftmaxGradientOp{}, {context.output_gradient(), context.output()}, {spec});
  context.SetInputGradient(0, {dx, 0});
}

void AddGradient(const SoftmaxCrossEntropyOp&, GradientContext& context) {
  TY_CHECK(!context.output_gradient(1).valid());  // probabilities are for the gradient alone; Softmax is what others differentiate
  const ValueSpec spec = context.spec(context.input(0));
  const NodeId dlogits =
      context.Add("input", SoftmaxCrossEntropyGradientOp{}, {context.output(1), context.input(1), context.output_gradient(0)}, {spec});
  context.SetInputGradient(0, {dlogits, 0});
}

}  // namespace trainyard::engine
