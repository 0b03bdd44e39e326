#include "trainer/backend/cpu/rows_losses.h"

#include "trainer/backend/cpu/make_kernel.h"

namespace trainyard::engine {
namespace {

struct Rows {
  int64_t count, width;
  explicit Rows(const Shape& shape) : count(shape.elements() / shape[-1]), width(shape[-1]) {}
};

RowLossArgs PartOf(const Rows& rows, int64_t begin, int64_t end) {
  RowLossArgs args;
  args.classes = static_cast<int>(rows.width);
  args.begin = begin;
  args.end = end;
  return args;
}

}  // namespace

CompiledKernel CompileRows(CpuDevice& device, const NodeView& node, const SoftmaxOp&) {
  return MakeKernel([&device, rows = Rows(node.out().shape)](const KernelContext& context) {
    device.pool.Run(rows.count, [&](int64_t begin, int64_t end, int) {
      RowLossArgs args = PartOf(rows, begin, end);
      args.x = context.input<float>(0);
      args.y = context.output<float>(0);
      device.kernels.softmax_rows(args);
    });
  });
}

CompiledKernel CompileRows(CpuDevice& device, const NodeView& node, const SoftmaxGradientOp&) {
  return MakeKernel([&device, rows = Rows(node.out().shape)](const KernelContext& context) {
    device.pool.Run(rows.count, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const float* dy = context.input<float>(0) + row * rows.width;
        const float* y = context.input<float>(1) + row * rows.width;
        float* dx = context.output<float>(0) + row * rows.width;
        float dot = 0.0f;
        for (int64_t c = 0; c < rows.width; ++c) dot += dy[c] * y[c];
        for (int64_t c = 0; c < rows.width; ++c) dx[c] = y[c] * (dy[c] - dot);
      }
    });
  });
}

// Each row's loss for itself, then their sum in order.
CompiledKernel CompileRows(CpuDevice& device, const NodeView& node, const SoftmaxCrossEntropyOp&) {
  const Rows rows(node.in(0).shape);
  return MakeKernel(
      [&device, rows](const KernelContext& context) {
        auto* losses = static_cast<double*>(context.scratch);
        device.pool.Run(rows.count, [&](int64_t begin, int64_t end, int) {
          RowLossArgs args = PartOf(rows, begin, end);
          args.x = context.input<float>(0);
          args.labels = context.input<int32_t>(1);
          args.y = context.output<float>(1);
          args.losses = losses;
          device.kernels.cross_entropy_rows(args);
        });
        double sum = 0.0;
        for (int64_t row = 0; row < rows.count; ++row) sum += losses[row];
        *context.output<float>(0) = static_cast<float>(sum / static_cast<double>(rows.count));
      },
      static_cast<size_t>(rows.count) * sizeof(double));
}

CompiledKernel CompileRows(CpuDevice& device, const NodeView& node, const SoftmaxCrossEntropyGradientOp&) {
  return MakeKernel([&device, rows = Rows(node.out().shape)](const KernelContext& context) {
    device.pool.Run(rows.count, [&](int64_t begin, int64_t end, int) {
      RowLossArgs args = PartOf(rows, begin, end);
      args.x = context.input<float>(0);
      args.labels = context.input<int32_t>(1);
      args.scale = *context.input<float>(2) / static_cast<float>(rows.count);
      args.y = context.output<float>(0);
      device.kernels.cross_entropy_gradient_rows(args);
    });
  });
}

CompiledKernel CompileRows(CpuDevice& device, const NodeView& node, const CorrectCountOp&) {
  const Rows rows(node.in(0).shape);
  return MakeKernel(
      [&device, rows](const KernelContext& context) {
        auto* correct = static_cast<uint8_t*>(context.scratch);
        device.pool.Run(rows.count, [&](int64_t begin, int64_t end, int) {
          RowLossArgs args = PartOf(rows, begin, end);
          args.x = context.input<float>(0);
          args.labels = context.input<int32_t>(1);
          args.correct = correct;
          device.kernels.correct_rows(args);
        });
        int64_t count = 0;
        for (int64_t row = 0; row < rows.count; ++row) count += correct[row];
        *context.output<float>(0) = static_cast<float>(count);
      },
      static_cast<size_t>(rows.count));
}

CompiledKernel CompileRows(CpuDevice&, const NodeView& node, const MeanSquaredErrorOp&) {
  return MakeKernel([elements = node.in(0).shape.elements()](const KernelContext& context) {
    double sum = 0.0;
    for (int64_t i = 0; i < elements; ++i) {
      const float difference = context.input<float>(0)[i] - context.input<float>(1)[i];
      sum += static_cast<double>(difference * difference);
    }
    *context.output<float>(0) = static_cast<float>(sum / static_cast<double>(elements));
  });
}

CompiledKernel CompileRows(CpuDevice&, const NodeView& node, const MeanSquaredErrorGradientOp&) {
  return MakeKernel([elements = node.in(0).shape.elements()](const KernelContext& context) {
    const float scale = 2.0f * *context.input<float>(2) / static_cast<float>(elements);
    for (int64_t i = 0; i < elements; ++i) {
      context.output<float>(0)[i] = (context.input<float>(0)[i] - context.input<float>(1)[i]) * scale;
    }
  });
}

}  // namespace trainyard::engine
