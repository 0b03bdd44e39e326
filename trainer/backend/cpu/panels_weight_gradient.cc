#include "trainer/backend/cpu/panels_weight_gradient.h"

#include <algorithm>

#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/panel_parts.h"

namespace trainyard::engine {
namespace {

int64_t WeightsOf(const ConvShape& shape) { return int64_t{shape.kernel_h} * shape.kernel_w * shape.channels * shape.outputs; }

// Of one part: the weights' sums, then the bias's.
int64_t PartFloats(const ConvShape& shape, bool bias) { return PaddedFloats(WeightsOf(shape)) + (bias ? PaddedFloats(shape.outputs) : 0); }

// to[i] = the sum of `parts` arrays, `stride` floats apart, for i in [begin, end).
void SumParts(const float* sums, int parts, int64_t stride, float* to, int64_t begin, int64_t end) {
  std::copy(sums + begin, sums + end, to + begin);
  for (int part = 1; part < parts; ++part) {
    const float* from = sums + part * stride;
    for (int64_t i = begin; i < end; ++i) to[i] += from[i];
  }
}

}  // namespace

size_t PanelsWeightGradientScratchFloats(const ConvShape& shape, bool bias) {
  return static_cast<size_t>(PanelParts(shape.panels).count() * PartFloats(shape, bias));
}

void RunPanelsWeightGradient(const ConvShape& shape, const float* x, const float* dy, float* dw, float* db, float* scratch,
                             CpuDevice& device) {
  const PanelParts parts(shape.panels);
  const int64_t part_floats = PartFloats(shape, db != nullptr);
  const int64_t bias_at = PaddedFloats(WeightsOf(shape));
  const int64_t x_panel = int64_t{shape.in_h} * shape.in_w * shape.channels * kLanes;
  const int64_t dy_panel = int64_t{shape.out_h} * shape.out_w * shape.outputs * kLanes;
  const int block = device.kernels.conv_weight_gradient_block(shape);
  const int64_t blocks = (shape.outputs + block - 1) / block;
  parts.Run(blocks, device.pool, [&](int64_t part, int first, int last, int) {
    const int panel = parts.begin(part);
    ConvWeightGradientArgs args;
    args.shape = shape;
    args.shape.panels = parts.begin(part + 1) - panel;
    args.x = x + panel * x_panel;
    args.dy = dy + panel * dy_panel;
    args.dw = scratch + part * part_floats;
    args.db = db == nullptr ? nullptr : args.dw + bias_at;
    args.output_begin = first * block;
    args.output_end = std::min(shape.outputs, last * block);
    device.kernels.conv_weight_gradient(args);
  });
  device.pool.Run(VectorsFor(WeightsOf(shape)), [&](int64_t begin, int64_t end, int) {
    SumParts(scratch, parts.count(), part_floats, dw, begin * kLanes, std::min(end * kLanes, WeightsOf(shape)));
  });
  if (db != nullptr) SumParts(scratch + bias_at, parts.count(), part_floats, db, 0, shape.outputs);
}

}  // namespace trainyard::engine
