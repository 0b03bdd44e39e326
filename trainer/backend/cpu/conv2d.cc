// Convolutions. The input gradient is a forward convolution too: of dy, with flipped and transposed
// weights.
#include "trainer/backend/cpu/bf16_weight_gradient.h"
#include "trainer/backend/cpu/conv_forward_plan.h"
#include "trainer/backend/cpu/conv_moments.h"
#include "trainer/backend/cpu/conv_shape.h"
#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/few_samples.h"
#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/make_kernel.h"
#include "trainer/backend/cpu/pool_args.h"
#include "trainer/backend/cpu/weight_gradient_path.h"
#include "trainer/backend/cpu/winograd_conv2d.h"
#include "trainer/backend/cpu/winograd_input_gradient.h"
#include "trainer/backend/cpu/winograd_tiles.h"
#include "trainer/graph/window.h"

namespace trainyard::engine {
namespace {

// Dense strides of y for images of height x width.
void SetStrides(ConvForwardArgs& args, int height, int width) {
  args.y_column = int64_t{args.shape.outputs} * kLanes;
  args.y_row = args.y_column * width;
  args.y_panel = args.y_row * height;
}

// Whether few samples take a path of their own; bf16 products have one for all.
bool TakesFewSamples(const ConvShape& shape, int64_t samples, const CpuDevice& device) {
  return device.bf16 == nullptr && IsFewSamples(shape, samples);
}

PackArgs MakePack(const ConvShape& shape, const ConvForwardArgs& forward) {
  PackArgs pack;
  pack.kernel_h = shape.kernel_h;
  pack.kernel_w = shape.kernel_w;
  pack.in = shape.channels;
  pack.out = shape.outputs;
  pack.block = forward.block;
  pack.winograd = forward.winograd;
  return pack;
}

// The term of Epilogue::add, null without one.
const float* AddOf(const KernelContext& context, bool bias, bool add) { return add ? context.input<float>(bias ? 3 : 2) : nullptr; }

}  // namespace

namespace {

// Convolution and bias of the whole batch at a time, then the rest of the epilogue. Used for a few
// samples, and for pools whose windows do not tile the image.
class WholeConv2d final : public Kernel {
 public:
  WholeConv2d(CpuDevice& device, const ConvForwardArgs& forward, const Epilogue& epilogue, const std::optional<PoolArgs>& pool,
              const ValueSpec& y)
      : device_(device),
        forward_(forward),
        pack_(MakePack(forward.shape, forward)),
        bias_(epilogue.bias),
        add_(epilogue.add),
        activation_(epilogue.activation),
        pool_(pool),
        samples_(y.shape[0]),
        few_(TakesFewSamples(forward.shape, samples_, device)) {
    const ConvShape& shape = forward_.shape;
    SetStrides(forward_, shape.out_h, shape.out_w);
    forward_.activation = pool_.has_value() || few_ ? Activation::kIdentity : activation_;
    weights_ = PackedWeightFloats(forward_, device);
    work_ = few_ ? PaddedFloats(FewSamplesScratchFloats(shape, samples_, device.pool.threads()))
                 : weights_ + ConvForwardScratchFloats(forward_, device);
    vectors_ = int64_t{shape.panels} * shape.out_h * shape.out_w * shape.outputs;
    if (epilogue.moments) moments_.emplace(PixelBlocks(y), device);
  }

  size_t scratch_bytes() const override {
    return (work_ + (pool_.has_value() ? vectors_ * kLanes : 0)) * sizeof(float) + (moments_ ? moments_->scratch_bytes() : 0);
  }

  void Run(const KernelContext& context) override {
    auto* scratch = static_cast<float*>(context.scratch);
    const float* bias = bias_ ? context.input<float>(2) : nullptr;
    float* y = pool_.has_value() ? scratch + work_ : context.output<float>(0);
    if (few_) {
      RunFewSamples(forward_.shape, samples_, context.input<float>(0), context.input<float>(1), bias, y, scratch, device_);
    } else {
      pack_.weights = context.input<float>(1);
      pack_.packed = scratch;
      RunPack(pack_, device_);
      forward_.x = context.input<float>(0);
      forward_.weights = scratch;
      forward_.bias = bias;
      forward_.scratch = scratch + weights_;
      forward_.y = y;
      RunConvForward(forward_, device_);
    }
    if (pool_.has_value()) {
      pool_->x = y;
      pool_->y = context.output<float>(0);
      pool_->argmax = context.output<uint8_t>(1);
      pool_->activation = activation_;
      device_.pool.Run(pool_->panels, [&](int64_t begin, int64_t end, int) {
        device_.kernels.max_pool(*pool_, static_cast<int>(begin), static_cast<int>(end));
      });
    } else if (few_) {
      const float* const terms[] = {y, AddOf(context, bias_, add_)};
      if (add_) device_.kernels.add(terms, 2, y, 0, vectors_);
      if (activation_ != Activation::kIdentity) device_.kernels.activate(y, y, vectors_, activation_);
      if (moments_ && context.step.training) {
        moments_->SumAll(y, scratch + work_);
        moments_->Finish(scratch + work_, context.output<float>(1), context.output<float>(2));
      }
    }
  }

 private:
  CpuDevice& device_;
  ConvForwardArgs forward_;
  PackArgs pack_;
  const bool bias_, add_;
  const Activation activation_;
  std::optional<PoolArgs> pool_;
  const int64_t samples_;
  const bool few_;
  std::optional<BatchMoments> moments_;  // with few_ only
  size_t weights_ = 0;                   // floats of packed weights
  size_t work_ = 0;                      // floats before what the pool reads
  int64_t vectors_ = 0;
};

}  // namespace

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const Conv2dOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  ConvForwardArgs forward;
  TY_ASSIGN_OR_RETURN(forward.shape, MakeConvShape(op.window, node.in(0).shape, node.in(1).shape));
  const ConvShape& shape = forward.shape;
  forward.x_in_pairs = node.in(0).narrow;
  forward.y_in_pairs = node.out().narrow;
  const int64_t samples = node.in(0).shape[0];
  const std::optional<Window>& pool = op.epilogue.max_pool;
  if (TakesFewSamples(shape, samples, device) || (pool.has_value() && !TilesImage(*pool))) {
    std::optional<PoolArgs> pool_args;
    if (pool.has_value()) {
      TY_ASSIGN_OR_RETURN(pool_args, MakePoolArgs(*pool, {samples, shape.out_h, shape.out_w, shape.outputs}));
    }
    ConvForwardPlan::For(forward, device).ApplyTo(forward);
    return std::make_unique<WholeConv2d>(device, forward, op.epilogue, pool_args, node.out());
  }

  forward.activation = op.epilogue.activation;
  if (pool.has_value()) {
    forward.max_pool = true;
    forward.pool_h = pool->size[0];
    forward.pool_w = pool->size[1];
  }
  ConvForwardPlan::For(forward, device).ApplyTo(forward);
  SetStrides(forward, shape.out_h / forward.pool_h, shape.out_w / forward.pool_w);
  std::optional<ConvMoments> moments;
  if (op.epilogue.moments) moments.emplace(forward, node.out(), device);
  const size_t weights = PackedWeightFloats(forward, device);
  const size_t work = PaddedFloats(ConvForwardScratchFloats(forward, device));
  const size_t moments_bytes = moments ? moments->scratch_bytes() : 0;
  return MakeKernel(
      [&device, forward, pack = MakePack(shape, forward), bias = op.epilogue.bias, add = op.epilogue.add, moments, weights,
       work](const KernelContext& context) mutable {
        auto* scratch = static_cast<float*>(context.scratch);
        pack.weights = context.input<float>(1);
        pack.packed = scratch;
        RunPack(pack, device);
        forward.x = context.input<float>(0);
        forward.weights = scratch;
        forward.bias = bias ? context.input<float>(2) : nullptr;
        forward.add = AddOf(context, bias, add);
        forward.y = context.output<float>(0);
        forward.scratch = scratch + weights;
        if (forward.max_pool) forward.argmax = context.output<uint8_t>(1);
        if (moments && context.step.training) {
          moments->Run(forward, scratch + weights + work, context.output<float>(1), context.output<float>(2));
        } else {
          RunConvForward(forward, device);
        }
      },
      (weights + work) * sizeof(float) + moments_bytes);
}

namespace {

// The pixels first, first + stride … of dx, in one direction: which taps reach them, and where the
// convolution of dy starts.
struct Phase {
  int first_tap = 0;
  int taps = 0;
  int pixels = 0;
  int pad = 0;
};

// dx[first + stride * i] = sum over t of w[first_tap + stride * t] dy[i + shift - t]. With taps
// flipped this is a convolution of stride 1 from i + shift - (taps - 1) on, padded by (taps - 1) -
// shift.
Phase PhaseOf(int first, int stride, int extent, int kernel, int pad) {
  Phase phase;
  phase.first_tap = (first + pad) % stride;
  phase.taps = kernel > phase.first_tap ? (kernel - phase.first_tap + stride - 1) / stride : 0;
  phase.pixels = (extent - first + stride - 1) / stride;
  const int shift = (first + pad - phase.first_tap) / stride;
  phase.pad = phase.taps - 1 - shift;
  return phase;
}

struct InputGradientPhase {
  ConvForwardArgs forward;
  PackArgs pack;
  int64_t y_offset = 0;
  size_t packed_offset = 0;
};

// The convolutions that make up dx, and where in scratch their packed weights lie.
std::vector<InputGradientPhase> MakePhases(const ConvShape& shape, const CpuDevice& device) {
  std::vector<InputGradientPhase> phases;
  size_t floats = 0;
  for (int row = 0; row < std::min(shape.stride_h, shape.in_h); ++row) {
    const Phase vertical = PhaseOf(row, shape.stride_h, shape.in_h, shape.kernel_h, shape.pad_top);
    for (int column = 0; column < std::min(shape.stride_w, shape.in_w); ++column) {
      const Phase horizontal = PhaseOf(column, shape.stride_w, shape.in_w, shape.kernel_w, shape.pad_left);
      InputGradientPhase phase;
      ConvShape& part = phase.forward.shape;
      part.panels = shape.panels;
      part.in_h = shape.out_h;
      part.in_w = shape.out_w;
      part.channels = shape.outputs;
      part.outputs = shape.channels;
      part.out_h = vertical.pixels;
      part.out_w = horizontal.pixels;
      part.kernel_h = vertical.taps;
      part.kernel_w = horizontal.taps;
      part.pad_top = vertical.pad;
      part.pad_left = horizontal.pad;
      ConvForwardPlan::Direct(part, device.kernels).ApplyTo(phase.forward);
      SetStrides(phase.forward, shape.in_h, shape.in_w);
      phase.y_offset = row * phase.forward.y_row + column * phase.forward.y_column;
      phase.forward.y_row *= shape.stride_h;
      phase.forward.y_column *= shape.stride_w;
      phase.pack = MakePack(shape, phase.forward);
      phase.pack.transposed = true;
      phase.pack.first_h = vertical.first_tap;
      phase.pack.first_w = horizontal.first_tap;
      phase.pack.step_h = shape.stride_h;
      phase.pack.step_w = shape.stride_w;
      phase.packed_offset = floats;
      floats += PackedWeightFloats(phase.forward, device);
      phases.push_back(phase);
    }
  }
  return phases;
}

CompiledKernel WinogradInputGradient(CpuDevice& device, const WinogradInputGradientPlan& plan) {
  const ConvShape& shape = plan.shape;
  PackArgs pack;
  pack.kernel_h = shape.kernel_h;
  pack.kernel_w = shape.kernel_w;
  pack.in = shape.channels;
  pack.out = shape.outputs;
  pack.block = plan.block;
  pack.winograd = WinogradResults(shape);
  pack.transposed = true;
  const size_t weights = WinogradWeightFloats(shape);
  return MakeKernel(
      [&device, plan, pack, weights](const KernelContext& context) mutable {
        auto* packed = static_cast<float*>(context.scratch);
        pack.weights = context.input<float>(1);
        pack.packed = packed;
        RunPack(pack, device);
        RunWinogradInputGradient(plan, context.input<float>(0), packed, context.output<float>(0), packed + weights, device);
      },
      (weights + WinogradInputGradientScratchFloats(plan, device.pool.threads())) * sizeof(float));
}

}  // namespace

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const Conv2dInputGradientOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  TY_ASSIGN_OR_RETURN(const ConvShape shape, MakeConvShape(op.window, node.out().shape, node.in(1).shape));
  std::vector<InputGradientPhase> phases = MakePhases(shape, device);
  const int64_t dx_element = ElementBytes(node.out());
  for (InputGradientPhase& phase : phases) {
    phase.forward.x_in_pairs = node.in(0).narrow;
    phase.forward.y_in_pairs = node.out().narrow;
  }
  const int64_t samples = node.out().shape[0];
  if (phases.size() == 1 && TakesFewSamples(phases[0].forward.shape, samples, device)) {
    const ConvShape& part = phases[0].forward.shape;
    PackArgs pack = phases[0].pack;
    pack.block = part.outputs;
    const size_t weights = PackedWeightFloats(phases[0].forward, device);
    return MakeKernel(
        [&device, part, pack, samples, weights](const KernelContext& context) mutable {
          auto* scratch = static_cast<float*>(context.scratch);
          pack.weights = context.input<float>(1);
          pack.packed = scratch;
          RunPack(pack, device);
          RunFewSamples(part, samples, context.input<float>(0), scratch, nullptr, context.output<float>(0), scratch + weights, device);
        },
        (weights + FewSamplesScratchFloats(part, samples, device.pool.threads())) * sizeof(float));
  }
  if (TakesWinograd(shape, device) && (device.bf16 == nullptr || node.in(0).narrow))
    return WinogradInputGradient(device, {shape, node.in(0).narrow, node.out().narrow, device});
  const size_t weights = phases.back().packed_offset + PackedWeightFloats(phases.back().forward, device);
  size_t work = 0;
  for (const InputGradientPhase& phase : phases) work = std::max(work, ConvForwardScratchFloats(phase.forward, device));
  return MakeKernel(
      [&device, phases, weights, dx_element](const KernelContext& context) mutable {
        for (InputGradientPhase& phase : phases) {
          float* packed = static_cast<float*>(context.scratch) + phase.packed_offset;
          phase.pack.weights = context.input<float>(1);
          phase.pack.packed = packed;
          if (phase.forward.shape.kernel_h > 0 && phase.forward.shape.kernel_w > 0) RunPack(phase.pack, device);
          phase.forward.x = context.input<float>(0);
          phase.forward.weights = packed;
          phase.forward.scratch = static_cast<float*>(context.scratch) + weights;
          phase.forward.y = reinterpret_cast<float*>(context.output<std::byte>(0) + phase.y_offset * dx_element);
          RunConvForward(phase.forward, device);
        }
      },
      (weights + work) * sizeof(float));
}

// Of y, in all panels.
static int64_t Pixels(const ConvShape& shape) { return int64_t{shape.panels} * shape.out_h * shape.out_w; }

static CompiledKernel WinogradWeightGradient(CpuDevice& device, const ConvShape& shape, int64_t samples, bool bias, bool in_pairs) {
  return MakeKernel(
      [&device, shape, samples, bias, in_pairs](const KernelContext& context) {
        const WinogradOperands operands = {context.input<float>(0), context.input<float>(1), in_pairs};
        RunWinogradWeightGradient(shape, samples, operands, context.output<float>(0), bias ? context.output<float>(1) : nullptr,
                                  static_cast<float*>(context.scratch), device);
      },
      WinogradWeightGradientScratchFloats(shape, device.pool.threads()) * sizeof(float));
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const Conv2dWeightGradientOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  TY_ASSIGN_OR_RETURN(const ConvShape shape, MakeConvShape(op.window, node.in(0).shape, node.out().shape));
  const int64_t samples = node.in(0).shape[0];
  if (device.bf16 != nullptr) {
    if (node.in(0).narrow && node.in(1).narrow && TakesWinograd(shape, device))
      return WinogradWeightGradient(device, shape, samples, op.bias, /*in_pairs=*/true);
    return MakeKernel(
        [&device, shape, bias = op.bias, x = node.in(0).narrow, dy = node.in(1).narrow](const KernelContext& context) {
          RunBf16WeightGradient(shape, {context.inputs[0], context.inputs[1], x, dy}, context.output<float>(0),
                                bias ? context.output<float>(1) : nullptr, static_cast<float*>(context.scratch), device);
        },
        Bf16WeightGradientScratchFloats(shape, nullptr, device.pool.threads()) * sizeof(float));
  }
  switch (WeightGradientPathOf(shape, samples)) {
    case WeightGradientPath::kWinograd:
      return WinogradWeightGradient(device, shape, samples, op.bias, /*in_pairs=*/false);
    case WeightGradientPath::kPointwise:
      return MakeKernel(
          [&device, shape, samples, bias = op.bias](const KernelContext& context) {
            RunPointwiseWeightGradient(shape, samples, context.input<float>(0), context.input<float>(1), context.output<float>(0),
                                       bias ? context.output<float>(1) : nullptr, static_cast<float*>(context.scratch), device);
          },
          PointwiseWeightGradientScratchFloats(shape, device.pool.threads()) * sizeof(float));
    case WeightGradientPath::kRows:
      return MakeKernel(
          [&device, shape, samples, bias = op.bias](const KernelContext& context) {
            const float* dy = context.input<float>(1);
            RunRowsWeightGradient(shape, samples, context.input<float>(0), dy, context.output<float>(0),
                                  static_cast<float*>(context.scratch), device);
            if (bias) RunBiasGradient(device, dy, context.output<float>(1), Pixels(shape), shape.outputs);
          },
          RowsWeightGradientScratchFloats(shape, device.pool.threads()) * sizeof(float));
    case WeightGradientPath::kPanels:
      break;
  }
  return MakeKernel(
      [&device, shape, bias = op.bias](const KernelContext& context) {
        RunPanelsWeightGradient(shape, context.input<float>(0), context.input<float>(1), context.output<float>(0),
                                bias ? context.output<float>(1) : nullptr, static_cast<float*>(context.scratch), device);
      },
      PanelsWeightGradientScratchFloats(shape, op.bias) * sizeof(float));
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const PooledConv2dWeightGradientOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  TY_ASSIGN_OR_RETURN(const ConvShape shape, MakeConvShape(op.window, node.in(0).shape, node.out().shape));
  TY_ASSIGN_OR_RETURN(PoolArgs pool, MakePoolArgs(op.pool, {node.in(0).shape[0], shape.out_h, shape.out_w, shape.outputs}));
  pool.activation = op.activation;
  const int threads = device.pool.threads();
  const size_t scratch = device.bf16 != nullptr ? Bf16WeightGradientScratchFloats(shape, &pool, threads)
                                                : PooledWeightGradientScratchFloats(shape, pool, op.bias, threads);
  return MakeKernel(
      [&device, shape, pool, bias = op.bias, x_in_pairs = node.in(0).narrow](const KernelContext& context) mutable {
        pool.x = context.input<float>(1);
        pool.winners = context.input<uint8_t>(2);
        pool.activated = pool.activation == Activation::kIdentity ? nullptr : context.input<float>(3);
        float* const dw = context.output<float>(0);
        float* const db = bias ? context.output<float>(1) : nullptr;
        auto* const memory = static_cast<float*>(context.scratch);
        if (device.bf16 != nullptr) {
          const Bf16Operands operands = {context.inputs[0], nullptr, x_in_pairs, /*dy_in_pairs=*/true, &pool};
          RunBf16WeightGradient(shape, operands, dw, db, memory, device);
        } else {
          RunPooledWeightGradient(shape, context.input<float>(0), pool, dw, db, memory, device);
        }
      },
      scratch * sizeof(float));
}

}  // namespace trainyard::engine
