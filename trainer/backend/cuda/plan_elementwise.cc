#include <vector>

#include "trainer/backend/cuda/plan_node.h"
#include "trainer/backend/cuda/scratch.h"
#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine::cuda {

Planned PlanNode(const Planner& planner, const NodeView&, const LossScaleOp&) {
  return NodePlan{[&device = planner.device, scale = &planner.step->loss_scale](const KernelContext& context) {
    return device.Launch(Each<CopyRows<float, float>>{{scale, context.output<float>(0), 1, 1, 1}, 1});
  }};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const BiasOp&) {
  return NodePlan{
      [&device = planner.device, channels = node.in(1).shape[0], count = node.out().shape.elements()](const KernelContext& context) {
        return device.Launch(Each<BiasActivate<float>>{
            {context.input<float>(0), context.input<float>(1), context.output<float>(0), channels, Activation::kIdentity}, count});
      }};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const BiasGradientOp&) {
  const int64_t channels = node.out().shape[0];
  const int64_t rows = node.in(0).shape.elements() / channels;
  return NodePlan{[&device = planner.device, channels, rows](const KernelContext& context) {
                    return device.Launch(Reduce<SumRows<float>>{
                        {{}, context.input<float>(0), context.output<float>(0), channels}, channels, rows, context.scratch});
                  },
                  PartialBytes<SumRows<float>>(channels, rows)};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const ActivationOp& op) {
  return WithElement(planner.ElementOf(node.out().narrow), [&]<typename T>() {
    return NodePlan{[&device = planner.device, op, count = node.out().shape.elements()](const KernelContext& context) {
      return device.Launch(Each<BiasActivate<T>>{{context.input<T>(0), nullptr, context.output<T>(0), 1, op.activation}, count});
    }};
  });
}

Planned PlanNode(const Planner& planner, const NodeView& node, const ActivationGradientOp& op) {
  return WithElement(planner.ElementOf(node.out().narrow), [&]<typename T>() {
    return NodePlan{[&device = planner.device, op, count = node.out().shape.elements()](const KernelContext& context) {
      return device.Launch(Each<ActivateBack<T>>{{context.input<T>(0), context.input<T>(1), context.output<T>(0), op.activation}, count});
    }};
  });
}

// More terms than one launch takes are added up in scratch first: the output may be any of them, so
// the last launch alone writes it.
Planned PlanNode(const Planner& planner, const NodeView& node, const AddOp&) {
  return WithElement(planner.ElementOf(node.out().narrow), [&]<typename T>() {
    using Body = AddTerms<T>;
    const int64_t count = node.out().shape.elements();
    ScratchLayout scratch;
    const ScratchPart<T> sum = scratch.Add<T>(node.input_count() > Body::kMost ? count : 0);
    return NodePlan{[&device = planner.device, inputs = node.input_count(), count, sum](const KernelContext& context) -> absl::Status {
                      Body body{};
                      for (int i = 0; i < inputs; ++i) {
                        if (body.count == Body::kMost) {
                          body.y = sum.In(context);
                          TY_RETURN_IF_ERROR(device.Launch(Each<Body>{body, count}));
                          body.terms[0] = body.y;
                          body.count = 1;
                        }
                        body.terms[body.count++] = context.input<T>(i);
                      }
                      body.y = context.output<T>(0);
                      return device.Launch(Each<Body>{body, count});
                    },
                    scratch.bytes()};
  });
}

Planned PlanNode(const Planner& planner, const NodeView& node, const DropoutOp& op) {
  const int64_t samples = node.out().shape[0];
  const int64_t features = node.out().shape.elements() / samples;
  return NodePlan{[&device = planner.device, step = planner.step, op, samples, features](const KernelContext& context) {
    return device.Launch(Each<Dropout>{
        {context.input<float>(0), context.output<float>(0), step, features, 1.0f / (1.0f - op.rate), DropThreshold(op.rate), op.stream},
        samples * ((features + 3) / 4)});
  }};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const RelayoutOp&) {
  TY_CHECK(node.in(0).narrow != node.out().narrow);
  const auto convert = [&]<typename X, typename Y>() {
    return NodePlan{[&device = planner.device, count = node.out().shape.elements()](const KernelContext& context) {
      return device.Launch(Each<CopyRows<X, Y>>{{context.input<X>(0), context.output<Y>(0), count, count, count}, count});
    }};
  };
  return WithElement(planner.operand(), [&]<typename T>() {
    return node.out().narrow ? convert.template operator()<float, T>() : convert.template operator()<T, float>();
  });
}

Planned PlanNode(const Planner& planner, const NodeView& node, const ConcatOp&) {
  std::vector<int64_t> widths;
  for (int i = 0; i < node.input_count(); ++i) widths.push_back(node.in(i).shape[-1]);
  const int64_t width = node.out().shape[-1];
  return NodePlan{[&device = planner.device, widths, width, rows = node.out().shape.elements() / width](const KernelContext& context) {
    int64_t begin = 0;
    for (size_t i = 0; i < widths.size(); ++i) {
      TY_RETURN_IF_ERROR(device.Launch(Each<CopyRows<float, float>>{
          {context.input<float>(static_cast<int>(i)), context.output<float>(0) + begin, widths[i], widths[i], width}, rows * widths[i]}));
      begin += widths[i];
    }
    return absl::OkStatus();
  }};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const SliceOp& op) {
  return NodePlan{[&device = planner.device, op, from = node.in(0).shape[-1], to = node.out().shape[-1],
                   count = node.out().shape.elements()](const KernelContext& context) {
    return device.Launch(Each<CopyRows<float, float>>{{context.input<float>(0) + op.begin, context.output<float>(0), to, from, to}, count});
  }};
}

}  // namespace trainyard::engine::cuda
