// Embeddings, changes of layout, and features side by side.
#include <numeric>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/make_kernel.h"
#include "trainer/backend/row_gradient.h"

namespace trainyard::engine {
namespace {

// Blocks of one row or vector group after another: in panels a block is the channels of a pixel, 16
// samples each.
int64_t BlockCount(const ValueSpec& spec) {
  if (spec.row_major) return spec.shape.elements() / spec.shape[-1];
  const PanelLayout layout(spec.shape);
  return layout.panels * layout.pixels;
}
int64_t BlockFloats(const ValueSpec& spec) { return spec.shape[-1] * (spec.row_major ? 1 : kLanes); }

}  // namespace

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const EmbeddingOp&) {
  return MakeKernel([&device, count = node.in(0).shape.elements(), width = node.in(1).shape[1]](const KernelContext& context) {
    const auto* ids = context.input<int32_t>(0);
    device.pool.Run(count, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        std::copy_n(context.input<float>(1) + ids[i] * width, width, context.output<float>(0) + i * width);
      }
    });
  });
}

// Threads share the columns, so each row of the table is summed in the order of the places.
CompiledKernel Compile(CpuDevice& device, const NodeView& node, const EmbeddingGradientOp&) {
  return MakeKernel([&device, count = node.in(0).shape.elements(), rows = node.out().shape[0],
                     width = node.out().shape[1]](const KernelContext& context) {
    const auto* ids = context.input<int32_t>(0);
    const float* dy = context.input<float>(1);
    float* table = context.output<float>(0);
    BeginRowGradient(std::span(ids, count), std::span(table, rows * width), width, context.touched_rows);
    device.pool.Run(VectorsFor(width), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = 0; i < count; ++i) {
        float* row = table + ids[i] * width;
        for (int64_t c = begin * kLanes; c < std::min(end * kLanes, width); ++c) row[c] += dy[i * width + c];
      }
    });
  });
}

// To bfloat16 or from it.
static CompiledKernel CompileRounding(CpuDevice& device, const NodeView& node) {
  return MakeKernel([&device, pairs = VectorsOf(node.out()) / 2, round = node.out().narrow](const KernelContext& context) {
    device.pool.Run(pairs, [&](int64_t begin, int64_t end, int) {
      const int64_t offset = begin * kGroupPair;
      if (round) {
        device.bf16->to_pairs(context.input<float>(0) + offset, context.output<uint16_t>(0) + offset, 2 * (end - begin));
      } else {
        device.bf16->from_pairs(context.input<uint16_t>(0) + offset, context.output<float>(0) + offset, 2 * (end - begin));
      }
    });
  });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const RelayoutOp&) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  if (node.in(0).narrow != node.out().narrow) return CompileRounding(device, node);
  const PanelLayout layout(node.out().shape);
  return MakeKernel([&device, layout, to_rows = node.out().row_major](const KernelContext& context) {
    device.pool.Run(layout.panels, [&](int64_t begin, int64_t end, int) {
      ConvertArgs args;
      args.samples = static_cast<int>(std::min(layout.samples, end * kLanes) - begin * kLanes);
      args.features = layout.features;
      args.from = context.input<float>(0) + begin * kLanes * layout.features;
      args.to = context.output<float>(0) + begin * kLanes * layout.features;
      (to_rows ? device.kernels.from_panels_f32 : device.kernels.to_panels_f32)(args);
    });
  });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const ConcatOp&) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  std::vector<int64_t> widths;
  for (int i = 0; i < node.input_count(); ++i) widths.push_back(BlockFloats(node.in(i)));
  return MakeKernel([&device, widths = std::move(widths), width = BlockFloats(node.out()),
                     blocks = BlockCount(node.out())](const KernelContext& context) {
    device.pool.Run(blocks, [&](int64_t begin, int64_t end, int) {
      for (int64_t block = begin; block < end; ++block) {
        float* to = context.output<float>(0) + block * width;
        for (size_t i = 0; i < widths.size(); ++i) {
          to = std::copy_n(context.input<float>(static_cast<int>(i)) + block * widths[i], widths[i], to);
        }
      }
    });
  });
}

CompiledKernel Compile(CpuDevice& device, const NodeView& node, const SliceOp& op) {
  TY_RETURN_IF_ERROR(RequireBatched(node));
  const int64_t begin_float = op.begin * (node.in(0).row_major ? 1 : kLanes);
  return MakeKernel([&device, begin_float, from = BlockFloats(node.in(0)), to = BlockFloats(node.out()),
                     blocks = BlockCount(node.out())](const KernelContext& context) {
    device.pool.Run(blocks, [&](int64_t begin, int64_t end, int) {
      for (int64_t block = begin; block < end; ++block) {
        std::copy_n(context.input<float>(0) + block * from + begin_float, to, context.output<float>(0) + block * to);
      }
    });
  });
}

}  // namespace trainyard::engine
