#include "trainer/backend/cuda/planned_convolution.h"

#include "trainer/base/status_macros.h"

namespace trainyard::engine::cuda {

absl::StatusOr<PlannedConvolution> PlannedConvolution::Make(const Planner& planner, const ConvolutionSizes& sizes, ConvolutionPart part,
                                                            bool bias, ScratchLayout& scratch) {
  PlannedConvolution made;
  made.device_ = &planner.device;
  made.sizes_ = sizes;
  made.part_ = part;
  const bool rounds = planner.precision == Precision::kBfloat16;
  // One product without columns cannot be bettered. Of the gradient of a few channels' kernel
  // libraries make a product of many more, most of them zeros: 0.22 ms of a LeNet step on an H200.
  constexpr int64_t kFewChannels = 4;
  const bool few = part == ConvolutionPart::kWeightGradient && sizes.window.channels < kFewChannels;
  if (!sizes.pointwise() && !few) {
    TY_ASSIGN_OR_RETURN(made.plan_, planner.device.Plan(ConvolutionShape{sizes, part, rounds, planner.precision == Precision::kTf32}));
  }
  if (made.plan_ == nullptr) {
    TY_ASSIGN_OR_RETURN(made.columns_, ColumnProduct::Make(planner, sizes, part, bias, scratch));
    return made;
  }
  const int64_t w_elements = sizes.depth() * sizes.filters;
  made.turned_ = scratch.Add<float>(w_elements);
  if (rounds) {
    const int64_t x_elements = sizes.samples * sizes.in_pixels() * sizes.window.channels;
    made.first_ = scratch.Add<Bfloat16>(part == ConvolutionPart::kInputGradient ? sizes.z_elements() : x_elements);
    made.second_ = scratch.Add<Bfloat16>(part == ConvolutionPart::kWeightGradient ? sizes.z_elements() : w_elements);
  }
  made.workspace_ = scratch.AddBytes<void>(made.plan_->workspace_bytes());
  return made;
}

absl::Status PlannedConvolution::Run(const KernelContext& context, const float* x, const float* w, const float* z, float* made,
                                     const OutputWork& after) const {
  const float* bias = after.bias;
  if (plan_ == nullptr) {
    TY_RETURN_IF_ERROR(columns_.Run(context, x, w, z, made, bias));
    bias = nullptr;  // the product took it in
  } else {
    TY_RETURN_IF_ERROR(RunOnDevice(context, x, w, z, made));
  }
  if (bias == nullptr && after.activation == Activation::kIdentity) return absl::OkStatus();
  return device_->Launch(Each<BiasActivate<float>>{{made, bias, made, sizes_.filters, after.activation}, sizes_.z_elements()});
}

absl::Status PlannedConvolution::RunOnDevice(const KernelContext& context, const float* x, const float* w, const float* z,
                                             float* made) const {
  const int64_t depth = sizes_.depth();
  const int64_t filters = sizes_.filters;
  float* const turned = turned_.In(context);
  void* const workspace = workspace_.In(context);
  if (part_ == ConvolutionPart::kWeightGradient) {
    TY_ASSIGN_OR_RETURN(const void* images, Rounded(context, first_, x));
    TY_ASSIGN_OR_RETURN(const void* outputs, Rounded(context, second_, z));
    TY_RETURN_IF_ERROR(plan_->Run(images, nullptr, outputs, turned, workspace));
    return device_->Launch(Each<Transpose<float, float>>{{turned, made, filters, depth}, depth * filters});
  }
  TY_RETURN_IF_ERROR(device_->Launch(Each<Transpose<float, float>>{{w, turned, depth, filters}, depth * filters}));
  const bool forward = part_ == ConvolutionPart::kOutput;
  TY_ASSIGN_OR_RETURN(const void* given, Rounded(context, first_, forward ? x : z));
  TY_ASSIGN_OR_RETURN(const void* kernel, Rounded(context, second_, turned));
  return plan_->Run(forward ? given : nullptr, kernel, forward ? nullptr : given, made, workspace);
}

absl::StatusOr<const void*> PlannedConvolution::Rounded(const KernelContext& context, const ScratchPart<Bfloat16>& part,
                                                        const float* from) const {
  Bfloat16* const rounded = part.In(context);
  if (rounded == nullptr) return from;
  const auto elements = static_cast<int64_t>(part.bytes / sizeof(Bfloat16));
  TY_RETURN_IF_ERROR(device_->Launch(Each<Convert<float, Bfloat16>>{{from, rounded, elements, elements}, elements}));
  return rounded;
}

}  // namespace trainyard::engine::cuda
