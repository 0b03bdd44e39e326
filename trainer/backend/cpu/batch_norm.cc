// Batch normalisation: sums by blocks of pixels, put together in the order of the blocks whatever
// the number of threads.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "trainer/backend/cpu/batch_moments.h"
#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/make_kernel.h"
#include "trainer/backend/cpu/pixel_blocks.h"

namespace trainyard::engine {
namespace {

// The scratch of one run back: vectors of channels, then what threads sum in, then every block's
// sums.
class BatchNormScratch {
 public:
  static constexpr int kVectors = 4;

  BatchNormScratch(const PixelBlocks& blocks, int threads) : channels_(blocks.channels()), threads_(threads), blocks_(blocks.count()) {}
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

template <typename Work>
void ForEachBlock(CpuDevice& device, const PixelBlocks& blocks, Work work) {
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
  PixelBlocks blocks;
  BatchMoments moments;

  // Vectors of channels, then what the moments need.
  static constexpr int kVectors = 5;
  size_t scratch_bytes() const { return kVectors * VectorBytes() + (op.moments ? 0 : moments.scratch_bytes()); }

  void operator()(const KernelContext& context) const {
    float* mean = Vector(context, 0);
    float* inverse = Vector(context, 1);
    float* variance = Vector(context, 2);
    if (context.step.training && !op.moments) {
      void* const sums = Vector(context, kVectors);
      moments.SumAll(context.inputs[0], sums);
      moments.Finish(sums, mean, variance);
    } else {
      const int first = context.step.training ? 5 : 3;
      std::copy_n(context.input<float>(first), blocks.channels(), mean);
      std::copy_n(context.input<float>(first + 1), blocks.channels(), variance);
    }
    for (int c = 0; c < blocks.channels(); ++c) inverse[c] = 1.0f / std::sqrt(variance[c] + op.epsilon);
    const float keep = context.step.training ? op.momentum : 1.0f;
    Leave(context, 1, [&](int c) { return keep * context.input<float>(3)[c] + (1.0f - keep) * mean[c]; });
    Leave(context, 2, [&](int c) { return keep * context.input<float>(4)[c] + (1.0f - keep) * variance[c]; });
    Leave(context, 3, [&](int c) { return mean[c]; });
    Leave(context, 4, [&](int c) { return inverse[c]; });
    BatchNormArgs args;
    float* scale = Vector(context, 3);
    float* shift = Vector(context, 4);
    ScaleAndShift(blocks.channels(), context.input<float>(1), context.input<float>(2), mean, inverse, scale, shift);
    args.relu = op.relu;
    args.scale = scale;
    args.shift = shift;
    ForEachBlock(device, blocks, [&](int64_t block, int) {
      BatchNormArgs part = args;
      const int64_t offset = blocks.Place(block, part);
      part.x = blocks.At(context.inputs[0], offset);
      part.y = blocks.At(context.outputs[0], offset);
      blocks.Kernels(device).apply(part);
    });
  }

  size_t VectorBytes() const { return static_cast<size_t>(PaddedFloats(blocks.channels())) * sizeof(float); }
  float* Vector(const KernelContext& context, int i) const {
    return reinterpret_cast<float*>(static_cast<std::byte*>(context.scratch) + i * VectorBytes());
  }

  template <typename Function>
  void Leave(const KernelContext& context, int output, Function value) const {
    float* const to = context.output<float>(output);
    if (to == nullptr) return;
    for (int c = 0; c < blocks.channels(); ++c) to[c] = value(c);
  }
};

struct GradientKernel {
  CpuDevice& device;
  BatchNormGradientOp op;
  PixelBlocks blocks;
  BatchNormScratch scratch;

  void operator()(const KernelContext& context) const {
    const float* gamma = context.input<float>(2);
    const float* mean = context.input<float>(4);
    const float* inverse = context.input<float>(5);
    float* scale = scratch.Vector(context.scratch, 0);
    float* shift = scratch.Vector(context.scratch, 1);
    ScaleAndShift(blocks.channels(), gamma, context.input<float>(3), mean, inverse, scale, shift);
    BatchNormArgs args;
    args.relu = op.relu;
    args.scale = scale;
    args.shift = shift;
    args.pivot = mean;
    ForEachBlock(device, blocks, [&](int64_t block, int thread) {
      BatchNormArgs part = args;
      const int64_t offset = blocks.Place(block, part);
      part.dy = blocks.At(context.inputs[0], offset);
      part.x = blocks.At(context.inputs[1], offset);
      part.scratch = scratch.ThreadSums(context.scratch, thread);
      part.sums = scratch.BlockSums(context.scratch, block);
      blocks.Kernels(device).gradient_sums(part);
    });
    // dx = scale * (dz - mean of dz - x^ * mean of dz x^) with x^ = (x - mean) * inverse, as
    // dz_factor * dz + x_factor * x + constant.
    float* x_factor = scratch.Vector(context.scratch, 2);
    float* constant = scratch.Vector(context.scratch, 3);
    for (int c = 0; c < blocks.channels(); ++c) {
      const double dbeta = scratch.Total(context.scratch, c);
      const double dgamma = scratch.Total(context.scratch, blocks.channels() + c) * inverse[c];
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
      part.dy = blocks.At(context.inputs[0], offset);
      part.x = blocks.At(context.inputs[1], offset);
      if (op.add) part.add = blocks.At(context.inputs[6], offset);
      part.y = blocks.At(context.outputs[0], offset);
      blocks.Kernels(device).gradient_apply(part);
    });
  }
};

}  // namespace

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const BatchNormOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  const PixelBlocks blocks(node.out());
  const ForwardKernel kernel{device, op, blocks, BatchMoments(blocks, device)};
  return MakeKernel(kernel, kernel.scratch_bytes());
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const BatchNormGradientOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  const PixelBlocks blocks(node.out());
  const BatchNormScratch scratch(blocks, device.pool.threads());
  return MakeKernel(GradientKernel{device, op, blocks, scratch}, scratch.bytes());
}

}  // namespace trainyard::engine
