// Pools and batch normalisation by moving statistics, for inference.
#include <cmath>

#include "trainer/backend/cpu/inference.h"
#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/make_kernel.h"
#include "trainer/backend/cpu/pool_args.h"

namespace trainyard::engine {
namespace {

using PoolFunction = void (*)(const PoolArgs&, int begin, int end);

CompiledKernel MakePool(CpuDevice& device, const NodeView& node, const Window& window, PoolFunction function) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  TY_ASSIGN_OR_RETURN(PoolArgs args, MakePoolArgs(window, node.in(0).shape));
  return MakeKernel([&device, args, function, samples = node.in(0).shape[0]](const KernelContext& context) mutable {
    args.x = context.input<float>(0);
    args.y = context.output<float>(0);
    device.pool.Run(samples, [&](int64_t begin, int64_t end, int) { function(args, static_cast<int>(begin), static_cast<int>(end)); });
  });
}

}  // namespace

CompiledKernel CompileForInference(CpuDevice& device, const NodeView& node, const MaxPoolOp& op) {
  return MakePool(device, node, op.window, device.kernels.max_pool_rows);
}

CompiledKernel CompileForInference(CpuDevice& device, const NodeView& node, const AvgPoolOp& op) {
  return MakePool(device, node, op.window, device.kernels.average_pool_rows);
}

CompiledKernel CompileForInference(CpuDevice& device, const NodeView& node, const BatchNormOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  const int64_t channels = node.out().shape[-1];
  const int64_t pixels = node.out().shape.elements() / channels;
  return MakeKernel(
      [&device, op, channels, pixels](const KernelContext& context) {
        auto* scale = static_cast<float*>(context.scratch);
        float* shift = scale + PaddedFloats(channels);
        for (int64_t c = 0; c < channels; ++c) {
          scale[c] = context.input<float>(1)[c] / std::sqrt(context.input<float>(4)[c] + op.epsilon);
          shift[c] = context.input<float>(2)[c] - context.input<float>(3)[c] * scale[c];
        }
        device.pool.Run(pixels, [&](int64_t begin, int64_t end, int) {
          BatchNormArgs args;
          args.pixels = end - begin;
          args.channels = static_cast<int>(channels);
          args.relu = op.relu;
          args.scale = scale;
          args.shift = shift;
          args.x = context.input<float>(0) + begin * channels;
          args.y = context.output<float>(0) + begin * channels;
          device.kernels.scale_rows(args);
        });
      },
      static_cast<size_t>(2 * PaddedFloats(channels)) * sizeof(float));
}

}  // namespace trainyard::engine
