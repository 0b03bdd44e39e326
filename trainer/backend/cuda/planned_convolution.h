// A convolution of a node: the device's own way, or a product of columns.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "trainer/backend/cuda/column_product.h"

namespace trainyard::engine::cuda {

// What is done to an output that was made.
struct OutputWork {
  const float* bias = nullptr;
  Activation activation = Activation::kIdentity;
};

class PlannedConvolution {
 public:
  // `bias`: Run is given one.
  static absl::StatusOr<PlannedConvolution> Make(const Planner& planner, const ConvolutionSizes& sizes, ConvolutionPart part,
                                                 const NarrowImages& narrow, bool bias, ScratchLayout& scratch);

  // x, w, z as ConvolutionSizes has them; the part that is made is null and goes to `made`. A bias
  // is added to a narrow output after that was rounded.
  absl::Status Run(const KernelContext& context, const void* x, const float* w, const void* z, void* made,
                   const OutputWork& after = {}) const;

 private:
  absl::Status RunOnDevice(const KernelContext& context, const void* x, const float* w, const void* z, void* made) const;
  absl::StatusOr<const void*> Rounded(const KernelContext& context, const ScratchPart<void>& part, const void* from) const;

  Device* device_ = nullptr;
  ConvolutionSizes sizes_{};
  ConvolutionPart part_ = ConvolutionPart::kOutput;
  NarrowImages narrow_;
  Element operand_ = Element::kFloat32;    // of products
  Element image_ = Element::kFloat32;      // of z
  ColumnProduct columns_;                  // where the device has no way of its own
  std::shared_ptr<ConvolutionPlan> plan_;  // else
  ScratchPart<void> turned_;               // the kernel as an operand, or its gradient, [D, size, C]
  ScratchPart<void> x_, z_;                // images that are held as f32, as operands
  ScratchPart<void> workspace_;
};

}  // namespace trainyard::engine::cuda
