#include "trainer/backend/cuda/planned_product.h"
#include "trainer/base/check.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine::cuda {
namespace {

// x [rows, inputs], w [inputs, units], z [rows, units]
struct DenseSizes {
  int64_t rows, inputs, units;

  DenseSizes(const Shape& x, int64_t wanted_units) : rows(x.elements() / x[-1]), inputs(x[-1]), units(wanted_units) {}
};

}  // namespace

Planned PlanNode(const Planner& planner, const NodeView& node, const DenseOp& op) {
  TY_CHECK(!op.epilogue.max_pool && !op.epilogue.batch_norm && !op.epilogue.add);
  const DenseSizes n(node.in(0).shape, node.in(1).shape[1]);
  ScratchLayout scratch;
  TY_ASSIGN_OR_RETURN(
      const PlannedProduct product,
      PlannedProduct::Make(
          planner,
          {.m = n.rows, .n = n.units, .k = n.inputs, .a = {n.inputs}, .b = {n.units}, .c_stride = n.units, .bias = op.epilogue.bias},
          scratch));
  return NodePlan{[&device = planner.device, product, n, epilogue = op.epilogue](const KernelContext& context) -> absl::Status {
                    float* const y = context.output<float>(0);
                    const float* const bias = epilogue.bias ? context.input<float>(2) : nullptr;
                    TY_RETURN_IF_ERROR(product.Run(context, context.input<float>(0), context.input<float>(1), y, bias));
                    if (epilogue.activation == Activation::kIdentity) return absl::OkStatus();
                    return device.Launch(Each<BiasActivate<float>>{{y, nullptr, y, n.units, epilogue.activation}, n.rows * n.units});
                  },
                  scratch.bytes()};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const DenseInputGradientOp&) {
  const DenseSizes n(node.out().shape, node.in(1).shape[1]);
  ScratchLayout scratch;
  TY_ASSIGN_OR_RETURN(
      const PlannedProduct product,
      PlannedProduct::Make(
          planner, {.m = n.rows, .n = n.inputs, .k = n.units, .a = {n.units}, .b = {n.units, /*transposed=*/true}, .c_stride = n.inputs},
          scratch));
  return NodePlan{[product](const KernelContext& context) {
                    return product.Run(context, context.input<float>(0), context.input<float>(1), context.output<float>(0));
                  },
                  scratch.bytes()};
}

Planned PlanNode(const Planner& planner, const NodeView& node, const DenseWeightGradientOp& op) {
  const DenseSizes n(node.in(0).shape, node.in(1).shape[-1]);
  ScratchLayout scratch;
  TY_ASSIGN_OR_RETURN(
      const PlannedProduct product,
      PlannedProduct::Make(
          planner, {.m = n.inputs, .n = n.units, .k = n.rows, .a = {n.inputs, /*transposed=*/true}, .b = {n.units}, .c_stride = n.units},
          scratch));
  const ScratchPart<void> partial = scratch.AddBytes<void>(op.bias ? PartialBytes<SumRows<float>>(n.units, n.rows) : 0);
  return NodePlan{
      [&device = planner.device, product, partial, n, bias = op.bias](const KernelContext& context) -> absl::Status {
        const float* const dz = context.input<float>(1);
        TY_RETURN_IF_ERROR(product.Run(context, context.input<float>(0), dz, context.output<float>(0)));
        if (!bias || context.output<float>(1) == nullptr) return absl::OkStatus();
        return device.Launch(Reduce<SumRows<float>>{{{}, dz, context.output<float>(1), n.units}, n.units, n.rows, partial.In(context)});
      },
      scratch.bytes()};
}

}  // namespace trainyard::engine::cuda
