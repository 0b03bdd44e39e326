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
  static absl::StatusOr<PlannedConvolution> Make(const Planner& planner, const ConvolutionSizes& sizes, ConvolutionPart part, bool bias,
                                                 ScratchLayout& scratch);

  // x, w, z as ConvolutionSizes has them, f32; the part that is made is null and goes to `made`.
  absl::Status Run(const KernelContext& context, const float* x, const float* w, const float* z, float* made,
                   const OutputWork& after = {}) const;

 private:
  absl::Status RunOnDevice(const KernelContext& context, const float* x, const float* w, const float* z, float* made) const;
  absl::StatusOr<const void*> Rounded(const KernelContext& context, const ScratchPart<Bfloat16>& part, const float* from) const;

  Device* device_ = nullptr;
  ConvolutionSizes sizes_{};
  ConvolutionPart part_ = ConvolutionPart::kOutput;
  ColumnProduct columns_;                  // where the device has no way of its own
  std::shared_ptr<ConvolutionPlan> plan_;  // else
  ScratchPart<float> turned_;              // the kernel, or its gradient, [D, size, C]
  ScratchPart<Bfloat16> first_, second_;   // what goes in, as bfloat16
  ScratchPart<void> workspace_;
};

}  // namespace trainyard::engine::cuda
