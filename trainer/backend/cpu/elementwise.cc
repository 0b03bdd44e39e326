// Ops that work element by element, and the gradient of a bias.
#include <array>
#include <cstring>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/make_kernel.h"
#include "trainer/ops/philox.h"

namespace trainyard::engine {

void RunBiasGradient(CpuDevice& device, const float* dy, float* db, int64_t pixels, int64_t channels) {
  // Whole vectors of channels to a thread.
  device.pool.Run(VectorsFor(channels), [&](int64_t begin, int64_t end, int) {
    device.kernels.bias_gradient(dy, db, pixels, static_cast<int>(channels), static_cast<int>(begin * kLanes),
                                 static_cast<int>(std::min(end * kLanes, channels)));
  });
}

CompiledKernel Compile(CpuDevice&, const NodeView&, const LossScaleOp&) {
  return MakeKernel([](const KernelContext& context) { *context.output<float>(0) = context.step.loss_scale; });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const BiasOp&) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  if (node.in(0).row_major) {
    return MakeKernel([width = node.out().shape[-1], elements = node.out().shape.elements()](const KernelContext& context) {
      for (int64_t row = 0; row < elements; row += width) {
        for (int64_t c = 0; c < width; ++c)
          context.output<float>(0)[row + c] = context.input<float>(0)[row + c] + context.input<float>(1)[c];
      }
    });
  }
  const PanelLayout layout(node.out().shape);
  return MakeKernel([&device, layout](const KernelContext& context) {
    device.pool.Run(layout.panels * layout.pixels, [&](int64_t begin, int64_t end, int) {
      const int64_t offset = begin * layout.channels * kLanes;
      device.kernels.bias(context.input<float>(0) + offset, context.input<float>(1), context.output<float>(0) + offset, end - begin,
                          static_cast<int>(layout.channels));
    });
  });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const BiasGradientOp&) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  if (node.in(0).row_major) {
    return MakeKernel([width = node.out().shape[0], elements = node.in(0).shape.elements()](const KernelContext& context) {
      std::fill_n(context.output<float>(0), width, 0.0f);
      for (int64_t row = 0; row < elements; row += width) {
        for (int64_t c = 0; c < width; ++c) context.output<float>(0)[c] += context.input<float>(0)[row + c];
      }
    });
  }
  const PanelLayout layout(node.in(0).shape);
  return MakeKernel([&device, layout](const KernelContext& context) {
    RunBiasGradient(device, context.input<float>(0), context.output<float>(0), layout.panels * layout.pixels, layout.channels);
  });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const ActivationOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  if (node.out().narrow) {
    return MakeKernel([&device, pairs = VectorsOf(node.out()) / 2, activation = op.activation](const KernelContext& context) {
      device.pool.Run(pairs, [&](int64_t begin, int64_t end, int) {
        const int64_t offset = begin * kGroupPair;
        device.bf16->activate(context.input<uint16_t>(0) + offset, context.output<uint16_t>(0) + offset, 2 * (end - begin), activation);
      });
    });
  }
  return MakeKernel([&device, vectors = VectorsOf(node.out()), activation = op.activation](const KernelContext& context) {
    device.pool.Run(vectors, [&](int64_t begin, int64_t end, int) {
      device.kernels.activate(context.input<float>(0) + begin * kLanes, context.output<float>(0) + begin * kLanes, end - begin, activation);
    });
  });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const ActivationGradientOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  if (node.out().narrow) {
    return MakeKernel([&device, pairs = VectorsOf(node.out()) / 2, activation = op.activation](const KernelContext& context) {
      device.pool.Run(pairs, [&](int64_t begin, int64_t end, int) {
        const int64_t offset = begin * kGroupPair;
        device.bf16->activate_gradient(context.input<uint16_t>(0) + offset, context.input<uint16_t>(1) + offset,
                                       context.output<uint16_t>(0) + offset, 2 * (end - begin), activation);
      });
    });
  }
  return MakeKernel([&device, vectors = VectorsOf(node.out()), activation = op.activation](const KernelContext& context) {
    device.pool.Run(vectors, [&](int64_t begin, int64_t end, int) {
      const int64_t offset = begin * kLanes;
      device.kernels.activate_gradient(context.input<float>(0) + offset, context.input<float>(1) + offset,
                                       context.output<float>(0) + offset, end - begin, activation);
    });
  });
}

// Of parameters' gradients: row-major, with no lanes of padding at the end.
static CompiledKernel CompileRowMajorAdd(const NodeView& node) {
  return MakeKernel([elements = node.out().shape.elements(), terms = node.input_count()](const KernelContext& context) {
    float* const sum = context.output<float>(0);
    for (int64_t i = 0; i < elements; ++i) {
      float total = context.input<float>(0)[i];
      for (int term = 1; term < terms; ++term) total += context.input<float>(term)[i];
      sum[i] = total;
    }
  });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const AddOp&) {
  if (!node.in(0).batched) return CompileRowMajorAdd(node);
  if (node.out().narrow) {
    return MakeKernel([&device, pairs = VectorsOf(node.out()) / 2,
                       terms = std::vector<const uint16_t*>(node.input_count())](const KernelContext& context) mutable {
      for (size_t i = 0; i < terms.size(); ++i) terms[i] = context.input<uint16_t>(static_cast<int>(i));
      device.pool.Run(pairs, [&](int64_t begin, int64_t end, int) {
        device.bf16->add(terms.data(), static_cast<int>(terms.size()), context.output<uint16_t>(0), 2 * begin, 2 * end);
      });
    });
  }
  return MakeKernel([&device, vectors = VectorsOf(node.out()),
                     terms = std::vector<const float*>(node.input_count())](const KernelContext& context) mutable {
    for (size_t i = 0; i < terms.size(); ++i) terms[i] = context.input<float>(static_cast<int>(i));
    device.pool.Run(vectors, [&](int64_t begin, int64_t end, int) {
      device.kernels.add(terms.data(), static_cast<int>(terms.size()), context.output<float>(0), begin, end);
    });
  });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const DropoutOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  const PanelLayout layout(node.out().shape);
  const bool rows = node.out().row_major;
  const auto run = rows ? device.kernels.dropout_rows : node.out().narrow ? device.bf16->dropout : device.kernels.dropout;
  const int64_t bytes = VectorsOf(node.out()) * kLanes * ElementBytes(node.out());
  return MakeKernel([&device, layout, bytes, rows, run, op](const KernelContext& context) {
    const float* x = context.input<float>(0);
    float* y = context.output<float>(0);
    if (!context.step.training) {
      if (y != x) std::memcpy(y, x, static_cast<size_t>(bytes));
      return;
    }
    const PhiloxStream stream(context.step.seed, context.step.step, context.step.worker, op.stream);
    DropoutArgs args;
    args.x = x;
    args.y = y;
    args.features = layout.features;
    std::copy(stream.key.begin(), stream.key.end(), args.key);
    std::copy(stream.salt.begin(), stream.salt.end(), args.salt);
    args.threshold = DropThreshold(op.rate);
    args.scale = 1.0f / (1.0f - op.rate);
    device.pool.Run(rows ? layout.samples : layout.panels, [&](int64_t begin, int64_t end, int) {
      DropoutArgs part = args;
      part.panel_begin = static_cast<int>(begin);
      part.panel_end = static_cast<int>(end);
      run(part);
    });
  });
}

}  // namespace trainyard::engine
