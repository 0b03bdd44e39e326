// Max and average pooling.
#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/make_kernel.h"
#include "trainer/backend/cpu/pool_args.h"
#include "trainer/graph/window.h"

namespace trainyard::engine {

absl::StatusOr<PoolArgs> MakePoolArgs(const Window& window, const Shape& images) {
  TY_ASSIGN_OR_RETURN(const WindowGeometry geometry, PlaceWindow(window, images));
  PoolArgs args;
  args.panels = static_cast<int>(PanelLayout(images).panels);
  args.in_h = static_cast<int>(geometry.in[0]);
  args.in_w = static_cast<int>(geometry.in[1]);
  args.out_h = static_cast<int>(geometry.out[0]);
  args.out_w = static_cast<int>(geometry.out[1]);
  args.channels = args.channel_end = static_cast<int>(images[3]);
  args.size_h = window.size[0];
  args.size_w = window.size[1];
  args.stride_h = window.stride[0];
  args.stride_w = window.stride[1];
  args.pad_top = static_cast<int>(geometry.pad_before[0]);
  args.pad_left = static_cast<int>(geometry.pad_before[1]);
  return args;
}

PoolArgs GradientBand(const PoolArgs& pool, int64_t panel, int64_t first, int windows, int rows, int64_t element) {
  const int64_t at = (panel * pool.out_h + first) * pool.out_w * pool.channels * kLanes;
  const auto part_of = [&](const float* values) {
    return reinterpret_cast<const float*>(reinterpret_cast<const std::byte*>(values) + at * element);
  };
  PoolArgs band = pool;
  band.panels = 1;
  band.in_h = rows;
  band.out_h = windows;
  band.x = part_of(pool.x);
  band.winners = pool.winners + at;
  if (pool.activated != nullptr) band.activated = part_of(pool.activated);
  return band;
}

namespace {

using PoolFunction = void (*)(const PoolArgs&, int begin, int end);

void RunPool(CpuDevice& device, const PoolArgs& args, PoolFunction function) {
  device.pool.Run(args.panels, [&](int64_t begin, int64_t end, int) { function(args, static_cast<int>(begin), static_cast<int>(end)); });
}

}  // namespace

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const MaxPoolOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  TY_ASSIGN_OR_RETURN(PoolArgs args, MakePoolArgs(op.window, node.in(0).shape));
  return MakeKernel([&device, args](const KernelContext& context) mutable {
    args.x = context.input<float>(0);
    args.y = context.output<float>(0);
    args.argmax = context.output<uint8_t>(1);
    RunPool(device, args, device.kernels.max_pool);
  });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const MaxPoolGradientOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  TY_ASSIGN_OR_RETURN(PoolArgs args, MakePoolArgs(op.window, node.out().shape));
  args.activation = op.activation;
  const PoolFunction function = node.out().narrow ? device.bf16->max_pool_gradient : device.kernels.max_pool_gradient;
  return MakeKernel([&device, args, function](const KernelContext& context) mutable {
    args.x = context.input<float>(0);
    args.winners = context.input<uint8_t>(1);
    args.activated = args.activation == Activation::kIdentity ? nullptr : context.input<float>(2);
    args.y = context.output<float>(0);
    RunPool(device, args, function);
  });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const AvgPoolOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  TY_ASSIGN_OR_RETURN(PoolArgs args, MakePoolArgs(op.window, node.in(0).shape));
  return MakeKernel([&device, args](const KernelContext& context) mutable {
    args.x = context.input<float>(0);
    args.y = context.output<float>(0);
    RunPool(device, args, device.kernels.average_pool);
  });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const AvgPoolGradientOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  TY_ASSIGN_OR_RETURN(PoolArgs args, MakePoolArgs(op.window, node.out().shape));
  return MakeKernel([&device, args](const KernelContext& context) mutable {
    args.x = context.input<float>(0);
    args.y = context.output<float>(0);
    RunPool(device, args, device.kernels.average_pool_gradient);
  });
}

}  // namespace trainyard::engine
