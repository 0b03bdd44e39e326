// How a node becomes work for a device: one function for each op, by family of files.
#pragma once

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/backend/cuda/device.h"
#include "trainer/graph/node_view.h"
#include "trainer/tensor/precision.h"

namespace trainyard::engine::cuda {

// What plans stand on; outlives them.
struct Planner {
  Device& device;
  const DeviceStep* step;  // in device memory
  Precision precision;
  // Convolutions lay out so many bytes of columns at once, or one sample.
  size_t column_bytes = size_t{256} << 20;

  // Of operands of products, and of narrow values.
  Element operand() const {
    if (precision == Precision::kBfloat16) return Element::kBfloat16;
    return precision == Precision::kFloat16 ? Element::kFloat16 : Element::kFloat32;
  }
  Element ElementOf(bool narrow) const { return narrow ? operand() : Element::kFloat32; }
};

// Starts a node's work. Allocates nothing.
using RunFunction = std::function<absl::Status(const KernelContext&)>;
struct NodePlan {
  RunFunction run;
  size_t scratch_bytes = 0;
};
using Planned = absl::StatusOr<NodePlan>;

// plan_elementwise.cc
Planned PlanNode(const Planner& planner, const NodeView& node, const LossScaleOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const BiasOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const BiasGradientOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const ActivationOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const ActivationGradientOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const AddOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const DropoutOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const RelayoutOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const ConcatOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const SliceOp& op);
// plan_products.cc
Planned PlanNode(const Planner& planner, const NodeView& node, const DenseOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const DenseInputGradientOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const DenseWeightGradientOp& op);
// plan_convolutions.cc
Planned PlanNode(const Planner& planner, const NodeView& node, const Conv2dOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const Conv2dInputGradientOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const Conv2dWeightGradientOp& op);
// plan_pools.cc
Planned PlanNode(const Planner& planner, const NodeView& node, const MaxPoolOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const MaxPoolGradientOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const AvgPoolOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const AvgPoolGradientOp& op);
// plan_batch_norm.cc
Planned PlanNode(const Planner& planner, const NodeView& node, const BatchNormOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const BatchNormGradientOp& op);
// plan_losses.cc
Planned PlanNode(const Planner& planner, const NodeView& node, const SoftmaxOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const SoftmaxGradientOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const SoftmaxCrossEntropyOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const SoftmaxCrossEntropyGradientOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const CorrectCountOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const MeanSquaredErrorOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const MeanSquaredErrorGradientOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const L2PenaltyOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const L2PenaltyGradientOp& op);
// plan_sequences.cc
Planned PlanNode(const Planner& planner, const NodeView& node, const EmbeddingOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const EmbeddingGradientOp& op);
// plan_recurrent.cc
Planned PlanNode(const Planner& planner, const NodeView& node, const RecurrentOp& op);
Planned PlanNode(const Planner& planner, const NodeView& node, const RecurrentGradientOp& op);

}  // namespace trainyard::engine::cuda
