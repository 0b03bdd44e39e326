// Softmax, losses and metrics. They are small: one thread, one fixed order of sums.
#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/make_kernel.h"
#include "trainer/backend/cpu/rows_losses.h"

namespace trainyard::engine {
namespace {

LossArgs MakeLossArgs(const Shape& scores) {
  const PanelLayout layout(scores);
  LossArgs args;
  args.panels = static_cast<int>(layout.panels);
  args.pixels_per_panel = static_cast<int>(layout.pixels);
  args.classes = static_cast<int>(layout.channels);
  args.samples = static_cast<int>(layout.samples);
  return args;
}

}  // namespace

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const SoftmaxOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  if (node.in(0).row_major) return CompileRows(device, node, op);
  const PanelLayout layout(node.out().shape);
  return MakeKernel([&device, layout](const KernelContext& context) {
    device.pool.Run(layout.panels * layout.pixels, [&](int64_t begin, int64_t end, int) {
      const int64_t offset = begin * layout.channels * kLanes;
      device.kernels.softmax(context.input<float>(0) + offset, context.output<float>(0) + offset, end - begin,
                             static_cast<int>(layout.channels));
    });
  });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const SoftmaxGradientOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  if (node.in(0).row_major) return CompileRows(device, node, op);
  const PanelLayout layout(node.out().shape);
  return MakeKernel([&device, layout](const KernelContext& context) {
    device.pool.Run(layout.panels * layout.pixels, [&](int64_t begin, int64_t end, int) {
      const int64_t offset = begin * layout.channels * kLanes;
      device.kernels.softmax_gradient(context.input<float>(0) + offset, context.input<float>(1) + offset, context.output<float>(0) + offset,
                                      end - begin, static_cast<int>(layout.channels));
    });
  });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const SoftmaxCrossEntropyOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  if (node.in(0).row_major) return CompileRows(device, node, op);
  const double labels = static_cast<double>(node.in(1).shape.elements());
  return MakeKernel([&device, args = MakeLossArgs(node.in(0).shape), labels](const KernelContext& context) mutable {
    args.x = context.input<float>(0);
    args.labels = context.input<int32_t>(1);
    args.y = context.output<float>(1);
    *context.output<float>(0) = static_cast<float>(device.kernels.cross_entropy(args) / labels);
  });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const SoftmaxCrossEntropyGradientOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  if (node.in(0).row_major) return CompileRows(device, node, op);
  const auto labels = static_cast<float>(node.in(1).shape.elements());
  return MakeKernel([&device, args = MakeLossArgs(node.in(0).shape), labels](const KernelContext& context) mutable {
    args.x = context.input<float>(0);
    args.labels = context.input<int32_t>(1);
    args.scale = *context.input<float>(2) / labels;
    args.y = context.output<float>(0);
    device.kernels.cross_entropy_gradient(args);
  });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const CorrectCountOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  if (node.in(0).row_major) return CompileRows(device, node, op);
  return MakeKernel([&device, args = MakeLossArgs(node.in(0).shape)](const KernelContext& context) mutable {
    args.x = context.input<float>(0);
    args.labels = context.input<int32_t>(1);
    *context.output<float>(0) = static_cast<float>(device.kernels.correct_count(args));
  });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const MeanSquaredErrorOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  if (node.in(0).row_major) return CompileRows(device, node, op);
  const auto elements = static_cast<double>(node.in(0).shape.elements());
  return MakeKernel([&device, args = MakeLossArgs(node.in(0).shape), elements](const KernelContext& context) mutable {
    args.x = context.input<float>(0);
    args.target = context.input<float>(1);
    *context.output<float>(0) = static_cast<float>(device.kernels.squared_error(args) / elements);
  });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const MeanSquaredErrorGradientOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  if (node.in(0).row_major) return CompileRows(device, node, op);
  const auto elements = static_cast<float>(node.in(0).shape.elements());
  return MakeKernel([&device, args = MakeLossArgs(node.in(0).shape), elements](const KernelContext& context) mutable {
    args.x = context.input<float>(0);
    args.target = context.input<float>(1);
    args.scale = 2.0f * *context.input<float>(2) / elements;
    args.y = context.output<float>(0);
    device.kernels.squared_error_gradient(args);
  });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const L2PenaltyOp& op) {
  std::vector<int64_t> elements;
  for (int i = 1; i < node.input_count(); ++i) elements.push_back(node.in(i).shape.elements());
  return MakeKernel([&device, op, elements = std::move(elements)](const KernelContext& context) {
    double sum = 0.0;
    for (size_t i = 0; i < elements.size(); ++i) {
      sum += device.kernels.sum_of_squares(context.input<float>(static_cast<int>(i) + 1), elements[i]);
    }
    *context.output<float>(0) = static_cast<float>(*context.input<float>(0) + op.l2 * sum);
  });
}

CompiledKernel Compile(CpuDevice&, const NodeView& node, const L2PenaltyGradientOp& op) {
  return MakeKernel([op, elements = node.out().shape.elements()](const KernelContext& context) {
    const float factor = 2.0f * op.l2 * *context.input<float>(1);
    const float* weights = context.input<float>(0);
    float* gradient = context.output<float>(0);
    for (int64_t i = 0; i < elements; ++i) gradient[i] = factor * weights[i];
  });
}

}  // namespace trainyard::engine
