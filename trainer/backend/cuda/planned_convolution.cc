#include "trainer/backend/cuda/planned_convolution.h"

#include "trainer/backend/cuda/round_operand.h"
#include "trainer/base/status_macros.h"

namespace trainyard::engine::cuda {

absl::StatusOr<PlannedConvolution> PlannedConvolution::Make(const Planner& planner, const ConvolutionSizes& sizes, ConvolutionPart part,
                                                            const NarrowImages& narrow, bool bias, ScratchLayout& scratch) {
  PlannedConvolution made;
  made.device_ = &planner.device;
  made.sizes_ = sizes;
  made.part_ = part;
  made.narrow_ = narrow;
  made.operand_ = planner.operand();
  made.image_ = planner.ElementOf(narrow.z);
  const bool rounds = Narrows(planner.precision);
  const bool to_kernel = part == ConvolutionPart::kWeightGradient;
  // One product without columns cannot be bettered. Of the gradient of a few channels' kernel
  // libraries make a product of many more, most of them zeros: 0.22 ms of a LeNet step on an H200.
  constexpr int64_t kFewChannels = 4;
  const bool few = to_kernel && sizes.window.channels < kFewChannels;
  if (!sizes.pointwise() && !few) {
    // cuDNN takes many times as long for the gradient of a kernel in f32.
    const bool makes_narrow = part == ConvolutionPart::kOutput ? narrow.z : to_kernel ? rounds : narrow.x;
    TY_ASSIGN_OR_RETURN(made.plan_, planner.device.Plan(ConvolutionShape{.sizes = sizes,
                                                                         .part = part,
                                                                         .takes = made.operand_,
                                                                         .makes = planner.ElementOf(makes_narrow),
                                                                         .tf32 = planner.precision == Precision::kTf32}));
  }
  if (made.plan_ == nullptr) {
    TY_ASSIGN_OR_RETURN(made.columns_, ColumnProduct::Make(planner, sizes, part, narrow, bias && !narrow.z, scratch));
    return made;
  }
  const int64_t w_elements = sizes.depth() * sizes.filters;
  made.turned_ = scratch.AddBytes<void>(w_elements * BytesOfElement(made.operand_));
  if (rounds && part != ConvolutionPart::kInputGradient && !narrow.x) {
    made.x_ = scratch.AddBytes<void>(sizes.samples * sizes.in_pixels() * sizes.window.channels * BytesOfElement(made.operand_));
  }
  if (rounds && part != ConvolutionPart::kOutput && !narrow.z) {
    made.z_ = scratch.AddBytes<void>(sizes.z_elements() * BytesOfElement(made.operand_));
  }
  made.workspace_ = scratch.AddBytes<void>(made.plan_->workspace_bytes());
  return made;
}

absl::Status PlannedConvolution::Run(const KernelContext& context, const void* x, const float* w, const void* z, void* made,
                                     const OutputWork& after) const {
  const bool product_adds_bias = plan_ == nullptr && !narrow_.z;
  const float* const bias = product_adds_bias ? nullptr : after.bias;
  if (plan_ == nullptr) {
    TY_RETURN_IF_ERROR(columns_.Run(context, x, w, z, made, product_adds_bias ? after.bias : nullptr));
  } else {
    TY_RETURN_IF_ERROR(RunOnDevice(context, x, w, z, made));
  }
  if (bias == nullptr && after.activation == Activation::kIdentity) return absl::OkStatus();
  return WithElement(image_, [&]<typename T>() {
    T* const output = static_cast<T*>(made);
    return device_->Launch(Each<BiasActivate<T>>{{output, bias, output, sizes_.filters, after.activation}, sizes_.z_elements()});
  });
}

absl::Status PlannedConvolution::RunOnDevice(const KernelContext& context, const void* x, const float* w, const void* z, void* made) const {
  const int64_t depth = sizes_.depth();
  const int64_t filters = sizes_.filters;
  void* const turned = turned_.In(context);
  void* const workspace = workspace_.In(context);
  TY_ASSIGN_OR_RETURN(const void* const images, Rounded(context, x_, x));
  TY_ASSIGN_OR_RETURN(const void* const outputs, Rounded(context, z_, z));
  if (part_ == ConvolutionPart::kWeightGradient) {
    TY_RETURN_IF_ERROR(plan_->Run(images, nullptr, outputs, turned, workspace));
    return WithElement(operand_, [&]<typename T>() {
      return device_->Launch(
          Each<Transpose<T, float>>{{static_cast<const T*>(turned), static_cast<float*>(made), filters, depth}, depth * filters});
    });
  }
  TY_RETURN_IF_ERROR(WithElement(operand_, [&]<typename T>() {
    return device_->Launch(Each<Transpose<float, T>>{{w, static_cast<T*>(turned), depth, filters}, depth * filters});
  }));
  return plan_->Run(images, turned, outputs, made, workspace);
}

absl::StatusOr<const void*> PlannedConvolution::Rounded(const KernelContext& context, const ScratchPart<void>& part,
                                                        const void* from) const {
  void* const rounded = part.In(context);
  if (rounded == nullptr) return from;
  const int64_t elements = static_cast<int64_t>(part.bytes) / BytesOfElement(operand_);
  TY_RETURN_IF_ERROR(RoundOperand(*device_, operand_, from, rounded, /*rows=*/1, elements, elements));
  return rounded;
}

}  // namespace trainyard::engine::cuda
