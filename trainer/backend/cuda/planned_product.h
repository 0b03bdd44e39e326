// A product of a node: plan, operands rounded to 16 bits where the precision asks for it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "trainer/backend/cuda/plan_node.h"
#include "trainer/backend/cuda/scratch.h"

namespace trainyard::engine::cuda {

// Which of a product's matrices are narrow (ValueSpec); the others are f32.
struct NarrowOperands {
  bool a = false, b = false, c = false;
};

// Copied freely: the copies share the device's plan. A kernel's products may run one after the
// other only.
class PlannedProduct {
 public:
  PlannedProduct() = default;
  // With a precision of 16 bits `scratch` gets places for operands that are f32 and get rounded.
  // Nothing is narrow with another precision. A narrow c takes no bias.
  static absl::StatusOr<PlannedProduct> Make(const Planner& planner, const ProductShape& shape, ScratchLayout& scratch,
                                             const NarrowOperands& narrow = {});

  absl::Status Run(const KernelContext& context, const void* a, const void* b, void* c, const float* bias = nullptr) const;

 private:
  // An operand as it is stored: rows of `width` elements, `stride` apart.
  struct Stored {
    int64_t rows = 0, width = 0, stride = 0;
    ScratchPart<void> rounded;
  };
  absl::StatusOr<const void*> Rounded(const KernelContext& context, const Stored& stored, const void* x) const;

  Device* device_ = nullptr;
  std::shared_ptr<ProductPlan> plan_;
  Element operand_ = Element::kFloat32;
  Stored a_, b_;
};

}  // namespace trainyard::engine::cuda
