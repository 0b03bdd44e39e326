#include "trainer/backend/cuda/planned_product.h"

#include "trainer/base/status_macros.h"

namespace trainyard::engine::cuda {

absl::StatusOr<PlannedProduct> PlannedProduct::Make(const Planner& planner, const ProductShape& shape, ScratchLayout& scratch) {
  PlannedProduct product;
  product.device_ = &planner.device;
  product.a_ = {shape.a.transposed ? shape.k : shape.m, shape.a.transposed ? shape.m : shape.k, shape.a.stride, {}};
  product.b_ = {shape.b.transposed ? shape.n : shape.k, shape.b.transposed ? shape.k : shape.n, shape.b.stride, {}};
  ProductShape given = shape;
  given.tf32 = planner.precision == Precision::kTf32;
  if (planner.precision == Precision::kBfloat16) {
    for (Stored* stored : {&product.a_, &product.b_}) stored->rounded = scratch.Add<Bfloat16>(stored->rows * stored->width);
    given.bfloat16 = true;
    given.a.stride = product.a_.width;
    given.b.stride = product.b_.width;
  }
  TY_ASSIGN_OR_RETURN(product.plan_, planner.device.Plan(given));
  return product;
}

absl::StatusOr<const void*> PlannedProduct::Rounded(const KernelContext& context, const Stored& stored, const float* x) const {
  Bfloat16* const rounded = stored.rounded.In(context);
  if (rounded == nullptr) return x;
  TY_RETURN_IF_ERROR(
      device_->Launch(Each<Convert<float, Bfloat16>>{{x, rounded, stored.width, stored.stride}, stored.rows * stored.width}));
  return rounded;
}

absl::Status PlannedProduct::Run(const KernelContext& context, const float* a, const float* b, float* c, const float* bias) const {
  TY_ASSIGN_OR_RETURN(const void* left, Rounded(context, a_, a));
  TY_ASSIGN_OR_RETURN(const void* right, Rounded(context, b_, b));
  return plan_->Run(left, right, c, bias);
}

}  // namespace trainyard::engine::cuda
