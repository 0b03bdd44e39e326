#include "trainer/backend/cuda/planned_product.h"

#include "trainer/backend/cuda/round_operand.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine::cuda {

absl::StatusOr<PlannedProduct> PlannedProduct::Make(const Planner& planner, const ProductShape& shape, ScratchLayout& scratch,
                                                    const NarrowOperands& narrow) {
  PlannedProduct product;
  product.device_ = &planner.device;
  product.a_ = {shape.a.transposed ? shape.k : shape.m, shape.a.transposed ? shape.m : shape.k, shape.a.stride, {}};
  product.b_ = {shape.b.transposed ? shape.n : shape.k, shape.b.transposed ? shape.k : shape.n, shape.b.stride, {}};
  ProductShape given = shape;
  given.tf32 = planner.precision == Precision::kTf32;
  given.makes = planner.ElementOf(narrow.c);
  given.takes = product.operand_ = planner.operand();
  if (Narrows(planner.precision)) {
    const auto round = [&](Stored& stored, Operand& operand) {
      stored.rounded = scratch.AddBytes<void>(stored.rows * stored.width * BytesOfElement(product.operand_));
      operand.stride = stored.width;
    };
    if (!narrow.a) round(product.a_, given.a);
    if (!narrow.b) round(product.b_, given.b);
  }
  TY_ASSIGN_OR_RETURN(product.plan_, planner.device.Plan(given));
  return product;
}

absl::StatusOr<const void*> PlannedProduct::Rounded(const KernelContext& context, const Stored& stored, const void* x) const {
  void* const rounded = stored.rounded.In(context);
  if (rounded == nullptr) return x;
  TY_RETURN_IF_ERROR(RoundOperand(*device_, operand_, x, rounded, stored.rows, stored.width, stored.stride));
  return rounded;
}

absl::Status PlannedProduct::Run(const KernelContext& context, const void* a, const void* b, void* c, const float* bias) const {
  TY_ASSIGN_OR_RETURN(const void* left, Rounded(context, a_, a));
  TY_ASSIGN_OR_RETURN(const void* right, Rounded(context, b_, b));
  return plan_->Run(left, right, c, bias);
}

}  // namespace trainyard::engine::cuda
