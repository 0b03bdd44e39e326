#include "trainer/backend/cuda/plan_node.h"
#include "trainer/backend/cuda/scratch.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine::cuda {
namespace {

// Null where nothing reads output i: then it goes to scratch.
float* OutputOr(const KernelContext& context, int i, const ScratchPart<float>& otherwise) {
  float* const output = context.output<float>(i);
  return output != nullptr ? output : otherwise.In(context);
}

// Outputs: y, next moving mean, next moving variance, mean, scale.
template <typename T>
Planned PlanForward(const Planner& planner, const NodeView& node, const BatchNormOp& op) {
  const int64_t channels = node.out().shape[-1];
  const int64_t rows = node.out().shape.elements() / channels;
  ScratchLayout scratch;
  const ScratchPart<float> mean_part = scratch.Add<float>(channels);
  const ScratchPart<float> scale_part = scratch.Add<float>(channels);
  const ScratchPart<void> partial = scratch.AddBytes<void>(PartialBytes<Moments<T>>(channels, rows));
  return NodePlan{
      [&device = planner.device, op, channels, rows, mean_part, scale_part, partial](const KernelContext& context) -> absl::Status {
        const T* const x = context.input<T>(0);
        const float* const moving_mean = context.input<float>(3);
        const float* const moving_variance = context.input<float>(4);
        float* const next_mean = context.output<float>(1);
        float* const next_variance = context.output<float>(2);
        float* const mean = OutputOr(context, 3, mean_part);
        float* const scale = OutputOr(context, 4, scale_part);
        if (context.step.training) {
          TY_RETURN_IF_ERROR(device.Launch(Reduce<Moments<T>>{
              {x, moving_mean, moving_variance, mean, scale, next_mean, next_variance, channels, op.momentum, op.epsilon},
              channels,
              rows,
              partial.In(context)}));
        } else {
          TY_RETURN_IF_ERROR(device.Launch(
              Each<NormFromMoving>{{moving_mean, moving_variance, mean, scale, next_mean, next_variance, op.epsilon}, channels}));
        }
        return device.Launch(Each<NormApply<T>>{
            {x, mean, scale, context.input<float>(1), context.input<float>(2), context.output<T>(0), channels, op.relu}, rows * channels});
      },
      scratch.bytes()};
}

template <typename T>
Planned PlanBackward(const Planner& planner, const NodeView& node, const BatchNormGradientOp& op) {
  const int64_t channels = node.out().shape[-1];
  const int64_t rows = node.out().shape.elements() / channels;
  ScratchLayout scratch;
  const ScratchPart<float> dgamma_part = scratch.Add<float>(channels);
  const ScratchPart<float> dbeta_part = scratch.Add<float>(channels);
  const ScratchPart<void> partial = scratch.AddBytes<void>(PartialBytes<NormSums<T>>(channels, rows));
  return NodePlan{
      [&device = planner.device, op, channels, rows, dgamma_part, dbeta_part, partial](const KernelContext& context) -> absl::Status {
        const Normalised<T> normal{context.input<T>(0),
                                   context.input<T>(1),
                                   context.input<float>(2),
                                   context.input<float>(3),
                                   context.input<float>(4),
                                   context.input<float>(5),
                                   channels,
                                   op.relu};
        float* const dgamma = OutputOr(context, 1, dgamma_part);
        float* const dbeta = OutputOr(context, 2, dbeta_part);
        TY_RETURN_IF_ERROR(device.Launch(Reduce<NormSums<T>>{{normal, dgamma, dbeta}, channels, rows, partial.In(context)}));
        return device.Launch(Each<NormBack<T>>{
            {normal, channels, dgamma, dbeta, op.add ? context.input<T>(6) : nullptr, context.output<T>(0), static_cast<float>(rows)},
            rows * channels});
      },
      scratch.bytes()};
}

}  // namespace

Planned PlanNode(const Planner& planner, const NodeView& node, const BatchNormOp& op) {
  return WithElement(planner.ElementOf(node.out().narrow), [&]<typename T>() { return PlanForward<T>(planner, node, op); });
}

Planned PlanNode(const Planner& planner, const NodeView& node, const BatchNormGradientOp& op) {
  return WithElement(planner.ElementOf(node.out().narrow), [&]<typename T>() { return PlanBackward<T>(planner, node, op); });
}

}  // namespace trainyard::engine::cuda
