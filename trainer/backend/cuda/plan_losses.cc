#include <algorithm>
#include <vector>

#include "trainer/backend/cuda/plan_node.h"
#include "trainer/backend/cuda/scratch.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine::cuda {
namespace {

struct Rows {
  int64_t count, width;

  explicit Rows(const Shape& shape) : count(shape.elements() / shape[-1]), width(shape[-1]) {}
  int64_t elements() const { return count * width; }
};

}  // namespace

Planned PlanNode(const Planner& planner, const NodeView& node, const SoftmaxOp&) {
  const Rows rows(node.out().shape);
  ScratchLayout scratch;
  const ScratchPart<float> log_sum = scratch.Add<float>(rows.count);
  const ScratchPart<void> partial = scratch.AddBytes<void>(PartialBytes<LogSumExp>(rows.count, rows.width));
  return NodePlan{
      [&device = planner.device, rows, log_sum, partial](const KernelContext& context) -> absl::Status {
        const float* const x = context.input<float>(0);
        float* const sums = log_sum.In(context);
        TY_RETURN_IF_ERROR(device.Launch(Reduce<LogSumExp>{{x, sums, rows.width}, rows.count, rows.width, partial.In(context)}));
        return device.Launch(Each<SoftmaxRow>{{x, sums, context.output<float>(0), rows.width}, rows.elements()});
      },
      scratch.bytes()};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const SoftmaxGradientOp&) {
  const Rows rows(node.out().shape);
  ScratchLayout scratch;
  const ScratchPart<float> dot = scratch.Add<float>(rows.count);
  const ScratchPart<void> partial = scratch.AddBytes<void>(PartialBytes<RowDot>(rows.count, rows.width));
  return NodePlan{
      [&device = planner.device, rows, dot, partial](const KernelContext& context) -> absl::Status {
        const float* const dy = context.input<float>(0);
        const float* const y = context.input<float>(1);
        float* const dots = dot.In(context);
        TY_RETURN_IF_ERROR(device.Launch(Reduce<RowDot>{{{}, dy, y, dots, rows.width}, rows.count, rows.width, partial.In(context)}));
        return device.Launch(Each<SoftmaxBack>{{dy, y, dots, context.output<float>(0), rows.width}, rows.elements()});
      },
      scratch.bytes()};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const SoftmaxCrossEntropyOp&) {
  const Rows rows(node.in(0).shape);
  ScratchLayout scratch;
  const ScratchPart<float> log_sum = scratch.Add<float>(rows.count);
  const ScratchPart<void> partial =
      scratch.AddBytes<void>(std::max(PartialBytes<LogSumExp>(rows.count, rows.width), PartialBytes<CrossEntropy>(1, rows.count)));
  return NodePlan{
      [&device = planner.device, rows, log_sum, partial](const KernelContext& context) -> absl::Status {
        const float* const logits = context.input<float>(0);
        const auto* const labels = context.input<int32_t>(1);
        float* const sums = log_sum.In(context);
        TY_RETURN_IF_ERROR(device.Launch(Reduce<LogSumExp>{{logits, sums, rows.width}, rows.count, rows.width, partial.In(context)}));
        TY_RETURN_IF_ERROR(device.Launch(
            Reduce<CrossEntropy>{{{}, logits, sums, labels, context.output<float>(0), rows.width, static_cast<float>(rows.count)},
                                 1,
                                 rows.count,
                                 partial.In(context)}));
        float* const probabilities = context.output<float>(1);
        if (probabilities == nullptr) return absl::OkStatus();
        return device.Launch(Each<SoftmaxRow>{{logits, sums, probabilities, rows.width}, rows.elements()});
      },
      scratch.bytes()};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const SoftmaxCrossEntropyGradientOp&) {
  return NodePlan{[&device = planner.device, rows = Rows(node.out().shape)](const KernelContext& context) {
    return device.Launch(Each<CrossEntropyBack>{{context.input<float>(0), context.input<int32_t>(1), context.input<float>(2),
                                                 context.output<float>(0), rows.width, static_cast<float>(rows.count)},
                                                rows.elements()});
  }};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const CorrectCountOp&) {
  const Rows rows(node.in(0).shape);
  ScratchLayout scratch;
  const ScratchPart<float> hits = scratch.Add<float>(rows.count);
  const ScratchPart<void> partial =
      scratch.AddBytes<void>(std::max(PartialBytes<BestIsLabel>(rows.count, rows.width), PartialBytes<Total>(1, rows.count)));
  return NodePlan{
      [&device = planner.device, rows, hits, partial](const KernelContext& context) -> absl::Status {
        TY_RETURN_IF_ERROR(
            device.Launch(Reduce<BestIsLabel>{{context.input<float>(0), context.input<int32_t>(1), hits.In(context), rows.width},
                                              rows.count,
                                              rows.width,
                                              partial.In(context)}));
        return device.Launch(Reduce<Total>{{{}, hits.In(context), context.output<float>(0)}, 1, rows.count, partial.In(context)});
      },
      scratch.bytes()};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const MeanSquaredErrorOp&) {
  const int64_t elements = node.in(0).shape.elements();
  return NodePlan{[&device = planner.device, elements](const KernelContext& context) {
                    return device.Launch(Reduce<SquaredError>{
                        {{}, context.input<float>(0), context.input<float>(1), context.output<float>(0), static_cast<float>(elements)},
                        1,
                        elements,
                        context.scratch});
                  },
                  PartialBytes<SquaredError>(1, elements)};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const MeanSquaredErrorGradientOp&) {
  return NodePlan{[&device = planner.device, elements = node.out().shape.elements()](const KernelContext& context) {
    return device.Launch(Each<SquaredErrorBack>{
        {context.input<float>(0), context.input<float>(1), context.input<float>(2), context.output<float>(0), static_cast<float>(elements)},
        elements});
  }};
}

// As many launches as the weights need; each adds to what the one before left.
Planned PlanNode(const Planner& planner, const NodeView& node, const L2PenaltyOp& op) {
  std::vector<int64_t> elements;
  size_t partial_bytes = 0;
  for (int i = 1; i < node.input_count(); ++i) elements.push_back(node.in(i).shape.elements());
  for (size_t first = 0; first < elements.size(); first += Penalty::kMost) {
    int64_t terms = 0;
    for (size_t k = first; k < std::min(elements.size(), first + Penalty::kMost); ++k) terms += elements[k];
    partial_bytes = std::max(partial_bytes, PartialBytes<Penalty>(1, terms));
  }
  return NodePlan{[&device = planner.device, op, elements](const KernelContext& context) -> absl::Status {
                    Penalty body{};
                    body.loss = context.input<float>(0);
                    body.penalised = context.output<float>(0);
                    body.l2 = op.l2;
                    for (size_t first = 0; first < elements.size(); first += Penalty::kMost) {
                      int64_t terms = 0;
                      for (size_t k = first; k < std::min(elements.size(), first + Penalty::kMost); ++k) {
                        body.weights[k - first] = context.input<float>(static_cast<int>(k) + 1);
                        body.ends[k - first] = terms += elements[k];
                      }
                      TY_RETURN_IF_ERROR(device.Launch(Reduce<Penalty>{body, 1, terms, context.scratch}));
                      body.loss = body.penalised;
                    }
                    return absl::OkStatus();
                  },
                  partial_bytes};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const L2PenaltyGradientOp& op) {
  return NodePlan{[&device = planner.device, op, elements = node.out().shape.elements()](const KernelContext& context) {
    return device.Launch(Each<PenaltyBack>{{context.input<float>(0), context.input<float>(1), context.output<float>(0), op.l2}, elements});
  }};
}

}  // namespace trainyard::engine::cuda
