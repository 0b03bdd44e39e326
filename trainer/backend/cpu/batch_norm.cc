// Batch normalisation: sums by blocks of pixels, put together in the order of the blocks whatever
// the number of threads.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/make_kernel.h"

namespace trainyard::engine {
namespace {

// The pixels of one piece of a thread's work. Sums within a piece are floats, sums over pieces are
// doubles.
constexpr int64_t kBlockPixels = 256;

// A value cut into blocks, none of which crosses panels.
struct Blocks {
  PanelLayout layout;
  int64_t per_panel;
  int channels;

  explicit Blocks(const Shape& shape)
      : layout(shape), per_panel((layout.pixels + kBlockPixels - 1) / kBlockPixels), channels(static_cast<int>(layout.channels)) {}

  int64_t count() const { return layout.panels * per_panel; }
  // Values under each channel.
  double values() const { return static_cast<double>(layout.samples * layout.pixels); }
  // Where block `block` begins, in floats; its pixels and lanes are set in `args`.
  int64_t Place(int64_t block, BatchNormArgs& args) const {
    const int64_t panel = block / per_panel;
    const int64_t first = block % per_panel * kBlockPixels;
    args.channels = channels;
    args.pixels = std::min(kBlockPixels, layout.pixels - first);
    args.lanes = static_cast<int>(std::min<int64_t>(kLanes, layout.samples - panel * kLanes));
    return (panel * layout.pixels + first) * layout.channels * kLanes;
  }
};

// The scratch of one run: vectors of channels, then what threads sum in, then every block's sums.
class BatchNormScratch {
 public:
  static constexpr int kVectors = 5;

  BatchNormScratch(const Blocks& blocks, int threads) : channels_(blocks.channels), threads_(threads), blocks_(blocks.count()) {}
  size_t bytes() const { return (SumsAt() + static_cast<size_t>(blocks_) * 4 * channels_) * sizeof(float); }
  float* Vector(void* memory, int i) const { return static_cast<float*>(memory) + i * Padded(); }
  float* ThreadSums(void* memory, int thread) const {
    return static_cast<float*>(memory) + kVectors * Padded() + int64_t{2} * channels_ * kLanes * thread;
  }
  double* BlockSums(void* memory, int64_t block) const {
    return reinterpret_cast<double*>(static_cast<float*>(memory) + SumsAt()) + block * 2 * channels_;
  }
  // The sum over all blocks of sum `i` of a block.
  double Total(void* memory, int64_t i) const {
    double total = 0.0;
    for (int64_t block = 0; block < blocks_; ++block) total += BlockSums(memory, block)[i];
    return total;
  }

 private:
  int64_t Padded() const { return PaddedFloats(channels_); }
  int64_t SumsAt() const { return kVectors * Padded() + int64_t{2} * channels_ * kLanes * threads_; }

  int channels_;
  int threads_;
  int64_t blocks_;
};

// Where an element of a value lies: f32, or bfloat16.
struct Elements {
  bool bf16;
  const void* At(const void* values, int64_t element) const { return static_cast<const std::byte*>(values) + element * bytes(); }
  void* At(void* values, int64_t element) const { return static_cast<std::byte*>(values) + element * bytes(); }

 private:
  int64_t bytes() const { return bf16 ? sizeof(uint16_t) : sizeof(float); }
};

const BatchNormKernels& Kernels(const CpuDevice& device, const Elements& elements) {
  return elements.bf16 ? device.bf16->batch_norm : device.kernels.batch_norm;
}

template <typename Work>
void ForEachBlock(CpuDevice& device, const Blocks& blocks, Work work) {
  device.pool.Run(blocks.count(), [&](int64_t begin, int64_t end, int thread) {
    for (int64_t block = begin; block < end; ++block) work(block, thread);
  });
}

// The same arithmetic forward and backward, so that both agree on where relu cuts.
void ScaleAndShift(int channels, const float* gamma, const float* beta, const float* mean, const float* inverse, float* scale,
                   float* shift) {
  for (int c = 0; c < channels; ++c) {
    scale[c] = gamma[c] * inverse[c];
    shift[c] = beta[c] - mean[c] * scale[c];
  }
}

struct ForwardKernel {
  CpuDevice& device;
  BatchNormOp op;
  Elements elements;
  Blocks blocks;
  BatchNormScratch scratch;

  void operator()(const KernelContext& context) const {
    float* mean = scratch.Vector(context.scratch, 0);
    float* inverse = scratch.Vector(context.scratch, 1);
    float* variance = scratch.Vector(context.scratch, 2);
    if (context.step.training) {
      BatchMoments(context, mean, variance);
    } else {
      std::copy_n(context.input<float>(3), blocks.channels, mean);
      std::copy_n(context.input<float>(4), blocks.channels, variance);
    }
    for (int c = 0; c < blocks.channels; ++c) inverse[c] = 1.0f / std::sqrt(variance[c] + op.epsilon);
    const float keep = context.step.training ? op.momentum : 1.0f;
    Leave(context, 1, [&](int c) { return keep * context.input<float>(3)[c] + (1.0f - keep) * mean[c]; });
    Leave(context, 2, [&](int c) { return keep * context.input<float>(4)[c] + (1.0f - keep) * variance[c]; });
    Leave(context, 3, [&](int c) { return mean[c]; });
    Leave(context, 4, [&](int c) { return inverse[c]; });
    BatchNormArgs args;
    float* scale = scratch.Vector(context.scratch, 3);
    float* shift = scratch.Vector(context.scratch, 4);
    ScaleAndShift(blocks.channels, context.input<float>(1), context.input<float>(2), mean, inverse, scale, shift);
    args.relu = op.relu;
    args.scale = scale;
    args.shift = shift;
    ForEachBlock(device, blocks, [&](int64_t block, int) {
      BatchNormArgs part = args;
      const int64_t offset = blocks.Place(block, part);
      part.x = elements.At(context.inputs[0], offset);
      part.y = elements.At(context.outputs[0], offset);
      Kernels(device, elements).apply(part);
    });
  }

  template <typename Function>
  void Leave(const KernelContext& context, int output, Function value) const {
    float* const to = context.output<float>(output);
    if (to == nullptr) return;
    for (int c = 0; c < blocks.channels; ++c) to[c] = value(c);
  }

  // A channel's value of the first sample and pixel.
  float FirstOf(const void* x, int channel) const {
    if (!elements.bf16) return static_cast<const float*>(x)[int64_t{channel} * kLanes];
    const uint16_t pair = static_cast<const uint16_t*>(x)[int64_t{channel / 2} * kGroupPair + channel % 2];
    return std::bit_cast<float>(uint32_t{pair} << 16);
  }

  // One pass: sums about each channel's first value, which keeps them small where a mean is far
  // from 0.
  void BatchMoments(const KernelContext& context, float* mean, float* variance) const {
    float* pivot = scratch.Vector(context.scratch, 3);
    for (int c = 0; c < blocks.channels; ++c) pivot[c] = FirstOf(context.inputs[0], c);
    ForEachBlock(device, blocks, [&](int64_t block, int thread) {
      BatchNormArgs part;
      part.x = elements.At(context.inputs[0], blocks.Place(block, part));
      part.pivot = pivot;
      part.scratch = scratch.ThreadSums(context.scratch, thread);
      part.sums = scratch.BlockSums(context.scratch, block);
      Kernels(device, elements).moments(part);
    });
    for (int c = 0; c < blocks.channels; ++c) {
      const double distance = scratch.Total(context.scratch, c) / blocks.values();
      const double square = scratch.Total(context.scratch, blocks.channels + c) / blocks.values();
      mean[c] = static_cast<float>(pivot[c] + distance);
      variance[c] = static_cast<float>(std::max(0.0, square - distance * distance));
    }
  }
};

struct GradientKernel {
  CpuDevice& device;
  BatchNormGradientOp op;
  Elements elements;
  Blocks blocks;
  BatchNormScratch scratch;

  void operator()(const KernelContext& context) const {
    const float* gamma = context.input<float>(2);
    const float* mean = context.input<float>(4);
    const float* inverse = context.input<float>(5);
    float* scale = scratch.Vector(context.scratch, 0);
    float* shift = scratch.Vector(context.scratch, 1);
    ScaleAndShift(blocks.channels, gamma, context.input<float>(3), mean, inverse, scale, shift);
    BatchNormArgs args;
    args.relu = op.relu;
    args.scale = scale;
    args.shift = shift;
    args.pivot = mean;
    ForEachBlock(device, blocks, [&](int64_t block, int thread) {
      BatchNormArgs part = args;
      const int64_t offset = blocks.Place(block, part);
      part.dy = elements.At(context.inputs[0], offset);
      part.x = elements.At(context.inputs[1], offset);
      part.scratch = scratch.ThreadSums(context.scratch, thread);
      part.sums = scratch.BlockSums(context.scratch, block);
      Kernels(device, elements).gradient_sums(part);
    });
    // dx = scale * (dz - mean of dz - x^ * mean of dz x^) with x^ = (x - mean) * inverse, as
    // dz_factor * dz + x_factor * x + constant.
    float* x_factor = scratch.Vector(context.scratch, 2);
    float* constant = scratch.Vector(context.scratch, 3);
    for (int c = 0; c < blocks.channels; ++c) {
      const double dbeta = scratch.Total(context.scratch, c);
      const double dgamma = scratch.Total(context.scratch, blocks.channels + c) * inverse[c];
      if (float* to = context.output<float>(1)) to[c] = static_cast<float>(dgamma);
      if (float* to = context.output<float>(2)) to[c] = static_cast<float>(dbeta);
      const double slope = -static_cast<double>(scale[c]) * inverse[c] * dgamma / blocks.values();
      x_factor[c] = static_cast<float>(slope);
      constant[c] = static_cast<float>(-scale[c] * dbeta / blocks.values() - slope * mean[c]);
    }
    args.dz_factor = scale;
    args.x_factor = x_factor;
    args.constant = constant;
    ForEachBlock(device, blocks, [&](int64_t block, int) {
      BatchNormArgs part = args;
      const int64_t offset = blocks.Place(block, part);
      part.dy = elements.At(context.inputs[0], offset);
      part.x = elements.At(context.inputs[1], offset);
      if (op.add) part.add = elements.At(context.inputs[6], offset);
      part.y = elements.At(context.outputs[0], offset);
      Kernels(device, elements).gradient_apply(part);
    });
  }
};

template <typename KernelOfOp, typename OpType>
CompiledKernel CompileFor(CpuDevice& device, const NodeView& node, const OpType& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  const Blocks blocks(node.out().shape);
  const BatchNormScratch scratch(blocks, device.pool.threads());
  return MakeKernel(KernelOfOp{device, op, {node.out().bf16}, blocks, scratch}, scratch.bytes());
}

}  // namespace

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const BatchNormOp& op) {
  return CompileFor<ForwardKernel>(device, node, op);
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const BatchNormGradientOp& op) {
  return CompileFor<GradientKernel>(device, node, op);
}

}  // namespace trainyard::engine
