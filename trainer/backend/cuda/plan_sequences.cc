#include "trainer/backend/cuda/plan_node.h"
#include "trainer/backend/cuda/scratch.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine::cuda {

Planned PlanNode(const Planner& planner, const NodeView& node, const EmbeddingOp&) {
  return NodePlan{[&device = planner.device, width = node.in(1).shape[1],
                   count = node.out().shape.elements()](const KernelContext& context) {
    return device.Launch(Each<GatherRows>{{context.input<int32_t>(0), context.input<float>(1), context.output<float>(0), width}, count});
  }};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const EmbeddingGradientOp&) {
  const int64_t places = node.in(0).shape.elements();
  const int64_t width = node.out().shape[1];
  ScratchLayout scratch;
  const ScratchPart<int32_t> first_part = scratch.Add<int32_t>(places);
  const ScratchPart<int32_t> next_part = scratch.Add<int32_t>(places);
  return NodePlan{[&device = planner.device, places, width, first_part, next_part,
                   elements = node.out().shape.elements()](const KernelContext& context) -> absl::Status {
                    const auto* const ids = context.input<int32_t>(0);
                    float* const dtable = context.output<float>(0);
                    int32_t* const first = first_part.In(context);
                    int32_t* const next = next_part.In(context);
                    const auto count = static_cast<int32_t>(places);
                    TY_RETURN_IF_ERROR(device.Launch(Each<Fill>{{dtable, 0.0f}, elements}));
                    TY_RETURN_IF_ERROR(device.Launch(Each<LinkPlaces>{{ids, first, next, count}, places}));
                    return device.Launch(Each<AddRows>{{ids, first, next, context.input<float>(1), dtable, width, count}, places * width});
                  },
                  scratch.bytes()};
}

}  // namespace trainyard::engine::cuda
