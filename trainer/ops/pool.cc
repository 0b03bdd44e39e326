#include "trainer/ops/pool.h"

#include <fmt/format.h>

#include "trainer/base/status_macros.h"
#include "trainer/graph/window.h"
#include "trainer/ops/expect.h"

namespace trainyard::engine {
namespace {

int64_t WindowElements(const Window& window) { return int64_t{window.size[0]} * window.size[1]; }

}  // namespace

absl::StatusOr<ValueSpec> InferPool(const Window& window, const ValueSpec& x) {
  TY_RETURN_IF_ERROR(ExpectImages("input", x));
  TY_ASSIGN_OR_RETURN(const WindowGeometry geometry, PlaceWindow(window, x.shape));
  ValueSpec y = x;
  y.shape = {x.shape[0], geometry.out[0], geometry.out[1], x.shape[3]};
  return y;
}

absl::StatusOr<std::vector<ValueSpec>> InferMaxPool(const Window& window, const ValueSpec& x) {
  TY_ASSIGN_OR_RETURN(const ValueSpec y, InferPool(window, x));
  if (WindowElements(window) > kMaxPoolElements) {
    return absl::InvalidArgumentError(fmt::format("max-pool window {}x{} has {} elements, expected at most {}", window.size[0],
                                                  window.size[1], WindowElements(window), kMaxPoolElements));
  }
  ValueSpec argmax = y;
  argmax.dtype = DType::kU8;
  return std::vector<ValueSpec>{y, argmax};
}

int64_t OpFlops(const MaxPoolOp& op, const NodeView& node) { return node.out().shape.elements() * WindowElements(op.window); }

int64_t OpFlops(const MaxPoolGradientOp& op, const NodeView& node) {
  return node.in(0).shape.elements() * (op.activation == Activation::kIdentity ? 1 : 4);
}

int64_t OpFlops(const AvgPoolOp& op, const NodeView& node) { return node.out().shape.elements() * (WindowElements(op.window) + 1); }
int64_t OpFlops(const AvgPoolGradientOp& op, const NodeView& node) { return node.in(0).shape.elements() * (WindowElements(op.window) + 1); }

void AddGradient(const MaxPoolOp& op, GradientContext& context) {
  const ValueSpec spec = context.spec(context.input(0));
  const NodeId dx = context.Add("input", MaxPoolGradientOp{op.window}, {context.output_gradient(), context.output(1)}, {spec});
  context.SetInputGradient(0, {dx, 0});
}

void AddGradient(const AvgPoolOp& op, GradientContext& context) {
  const ValueSpec spec = context.spec(context.input(0));
  context.SetInputGradient(0, {context.Add("input", AvgPoolGradientOp{op.window}, {context.output_gradient()}, {spec}), 0});
}

}  // namespace trainyard::engine
