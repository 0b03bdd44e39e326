#include "trainer/backend/cuda/plan_node.h"
#include "trainer/backend/cuda/window_place.h"

namespace trainyard::engine::cuda {

Planned PlanNode(const Planner& planner, const NodeView& node, const MaxPoolOp& op) {
  return NodePlan{[&device = planner.device, window = PlaceOf(op.window, node.in(0).shape),
                   count = node.out().shape.elements()](const KernelContext& context) {
    return device.Launch(Each<MaxPool<float>>{
        {context.input<float>(0), nullptr, context.output<float>(0), context.output<uint8_t>(1), window, Activation::kIdentity}, count});
  }};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const MaxPoolGradientOp& op) {
  return NodePlan{[&device = planner.device, op, window = PlaceOf(op.window, node.out().shape), inputs = node.out().shape.elements(),
                   windows = node.in(0).shape.elements(), element = planner.ElementOf(node.out().narrow)](const KernelContext& context) {
    const float* const y = op.activation == Activation::kIdentity ? nullptr : context.input<float>(2);
    return WithElement(element, [&]<typename T>() {
      const MaxPoolBack<T> pool{context.input<float>(0), context.input<uint8_t>(1), y, context.output<T>(0), window, op.activation};
      if (window.Tiles()) return device.Launch(Each<MaxPoolBackTiles<T>>{{pool}, windows});
      return device.Launch(Each<MaxPoolBack<T>>{pool, inputs});
    });
  }};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const AvgPoolOp& op) {
  return NodePlan{[&device = planner.device, window = PlaceOf(op.window, node.in(0).shape),
                   count = node.out().shape.elements()](const KernelContext& context) {
    return device.Launch(Each<AvgPool>{{context.input<float>(0), context.output<float>(0), window}, count});
  }};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const AvgPoolGradientOp& op) {
  return NodePlan{[&device = planner.device, window = PlaceOf(op.window, node.out().shape),
                   count = node.out().shape.elements()](const KernelContext& context) {
    return device.Launch(Each<AvgPoolBack>{{context.input<float>(0), context.output<float>(0), window}, count});
  }};
}

}  // namespace trainyard::engine::cuda
