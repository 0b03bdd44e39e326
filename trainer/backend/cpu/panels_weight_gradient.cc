#include "trainer/backend/cpu/panels_weight_gradient.h"

#include <algorithm>

#include "trainer/backend/cpu/layout.h"
#include "trainer/backend/cpu/panel_parts.h"
#include "trainer/backend/cpu/pool_args.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kBandFloats = 64 * 1024;  // of a band's gradient before the pool

int64_t WeightsOf(const ConvShape& shape) { return int64_t{shape.kernel_h} * shape.kernel_w * shape.channels * shape.outputs; }

// Of one part: the weights' sums, then the bias's.
int64_t PartFloats(const ConvShape& shape, bool bias) { return PaddedFloats(WeightsOf(shape)) + (bias ? PaddedFloats(shape.outputs) : 0); }

int64_t RowFloats(const ConvShape& shape) { return int64_t{shape.out_w} * shape.outputs * kLanes; }

// Sums parts of the panels: add(part, args) has the first and the last output in `args`, and where
// their sums go.
template <typename Add>
void SumInParts(const ConvShape& shape, float* dw, float* db, float* scratch, CpuDevice& device, const Add& add) {
  const PanelParts parts(shape.panels);
  const int64_t part_floats = PartFloats(shape, db != nullptr);
  const int64_t bias_at = PaddedFloats(WeightsOf(shape));
  const int block = device.kernels.conv_weight_gradient_block(shape);
  const int64_t blocks = (shape.outputs + block - 1) / block;
  parts.Run(blocks, device.pool, [&](int64_t part, int first, int last, int thread) {
    ConvWeightGradientArgs args;
    args.shape = shape;
    args.dw = scratch + part * part_floats;
    args.db = db == nullptr ? nullptr : args.dw + bias_at;
    args.output_begin = first * block;
    args.output_end = std::min(shape.outputs, last * block);
    add(parts.begin(part), parts.begin(part + 1), args, thread);
  });
  device.pool.Run(VectorsFor(WeightsOf(shape)), [&](int64_t begin, int64_t end, int) {
    SumParts(scratch, parts.count(), part_floats, dw, begin * kLanes, std::min(end * kLanes, WeightsOf(shape)));
  });
  if (db != nullptr) SumParts(scratch + bias_at, parts.count(), part_floats, db, 0, shape.outputs);
}

// One panel's rows [first, first + rows) of the gradient before the pool, and what they add.
class PooledPanel {
 public:
  PooledPanel(const PoolArgs& pool, const float* x, int64_t panel, float* dz, const KernelTable& kernels)
      : pool_(pool), x_(x), panel_(panel), dz_(dz), kernels_(kernels) {}

  // The windows of pooled rows [first, first + windows). The last ones take the rows behind them,
  // which no window reads.
  void AddBand(ConvWeightGradientArgs args, int first, int windows) const {
    ConvShape& shape = args.shape;
    const int top = first * pool_.size_h;
    const int rows = first + windows == pool_.out_h ? shape.out_h - top : windows * pool_.size_h;
    Unpool(first, windows, rows, args);
    const int64_t x_row = int64_t{shape.in_w} * shape.channels * kLanes;
    const int in_top = top * shape.stride_h - shape.pad_top;
    args.x = x_ + (panel_ * shape.in_h + std::max(0, in_top)) * x_row;
    args.dy = dz_;
    shape.panels = 1;
    shape.in_h -= std::max(0, in_top);
    shape.pad_top = std::max(0, -in_top);
    shape.out_h = rows;
    kernels_.conv_weight_gradient(args);
  }

 private:
  void Unpool(int first, int windows, int rows, const ConvWeightGradientArgs& args) const {
    PoolArgs band = GradientBand(pool_, panel_, first, windows, rows, sizeof(float));
    band.channel_begin = args.output_begin;
    band.channel_end = args.output_end;
    band.y = dz_;
    kernels_.max_pool_gradient(band, 0, 1);
  }

  const PoolArgs& pool_;
  const float* const x_;
  const int64_t panel_;
  float* const dz_;
  const KernelTable& kernels_;
};

// Pooled rows of a band.
int BandWindows(const ConvShape& shape, const PoolArgs& pool) {
  return static_cast<int>(std::clamp<int64_t>(kBandFloats / (RowFloats(shape) * pool.size_h), 1, pool.out_h));
}

// Of the longest band: the last one may take some rows more.
int64_t BandFloats(const ConvShape& shape, const PoolArgs& pool) {
  return RowFloats(shape) * (int64_t{BandWindows(shape, pool)} * pool.size_h + shape.out_h % pool.size_h);
}

}  // namespace

size_t PanelsWeightGradientScratchFloats(const ConvShape& shape, bool bias) {
  return static_cast<size_t>(PanelParts(shape.panels).count() * PartFloats(shape, bias));
}

void RunPanelsWeightGradient(const ConvShape& shape, const float* x, const float* dy, float* dw, float* db, float* scratch,
                             CpuDevice& device) {
  const int64_t x_panel = int64_t{shape.in_h} * shape.in_w * shape.channels * kLanes;
  const int64_t dy_panel = shape.out_h * RowFloats(shape);
  SumInParts(shape, dw, db, scratch, device, [&](int begin, int end, ConvWeightGradientArgs& args, int) {
    args.shape.panels = end - begin;
    args.x = x + begin * x_panel;
    args.dy = dy + begin * dy_panel;
    device.kernels.conv_weight_gradient(args);
  });
}

size_t PooledWeightGradientScratchFloats(const ConvShape& shape, const PoolArgs& pool, bool bias, int threads) {
  return PanelsWeightGradientScratchFloats(shape, bias) + static_cast<size_t>(threads * BandFloats(shape, pool));
}

void RunPooledWeightGradient(const ConvShape& shape, const float* x, const PoolArgs& pool, float* dw, float* db, float* scratch,
                             CpuDevice& device) {
  const int windows = BandWindows(shape, pool);
  float* const bands = scratch + PanelsWeightGradientScratchFloats(shape, db != nullptr);
  SumInParts(shape, dw, db, scratch, device, [&](int begin, int end, ConvWeightGradientArgs& args, int thread) {
    for (int panel = begin; panel < end; ++panel) {
      const PooledPanel pooled(pool, x, panel, bands + thread * BandFloats(shape, pool), device.kernels);
      for (int first = 0; first < pool.out_h; first += windows) {
        args.accumulate = panel > begin || first > 0;
        pooled.AddBand(args, first, std::min(windows, pool.out_h - first));
      }
    }
  });
}

}  // namespace trainyard::engine
