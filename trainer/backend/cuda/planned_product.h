// A product of a node: plan, operands rounded to bfloat16 where the precision asks for it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "trainer/backend/cuda/plan_node.h"
#include "trainer/backend/cuda/scratch.h"

namespace trainyard::engine::cuda {

// Copied freely: the copies share the device's plan. A kernel's products may run one after the
// other only.
class PlannedProduct {
 public:
  PlannedProduct() = default;
  // Of f32 operands; with Precision::kBfloat16 `scratch` gets places for the rounded ones.
  static absl::StatusOr<PlannedProduct> Make(const Planner& planner, const ProductShape& shape, ScratchLayout& scratch);

  absl::Status Run(const KernelContext& context, const float* a, const float* b, float* c, const float* bias = nullptr) const;

 private:
  // An operand as it is stored: rows of `width` elements, `stride` apart.
  struct Stored {
    int64_t rows = 0, width = 0, stride = 0;
    ScratchPart<Bfloat16> rounded;
  };
  absl::StatusOr<const void*> Rounded(const KernelContext& context, const Stored& stored, const float* x) const;

  Device* device_ = nullptr;
  std::shared_ptr<ProductPlan> plan_;
  Stored a_, b_;
};

}  // namespace trainyard::engine::cuda
