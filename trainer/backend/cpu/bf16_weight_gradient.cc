#include "trainer/backend/cpu/bf16_weight_gradient.h"

#include <algorithm>

#include "trainer/backend/cpu/bf16_tiling.h"
#include "trainer/backend/cpu/pool_args.h"

namespace trainyard::engine {
namespace {

constexpr int64_t kStepSamples = 2 * kLanes;                 // of a step
constexpr int64_t kChunkBytes = 1024 * 1024;                 // of both operands: half of a second cache
constexpr int64_t kGroupStep = kMostTilePairs * kGroupPair;  // elements of a group's step

// `vectors` of one panel of x, from its element `from` on, and of the other `other` elements behind
// it, as rows of 32 samples. Without another panel the rows hold the first twice; the other operand
// has zeros there.
void PackSamples(const Bf16Kernels& kernels, const Bf16Operands& operands, int64_t from, int64_t other, int64_t vectors, uint16_t* to) {
  if (operands.x_in_pairs) return kernels.turn_left(static_cast<const uint16_t*>(operands.x) + from, other, vectors, to);
  Bf16PackArgs pack;
  pack.from = static_cast<const float*>(operands.x) + from;
  pack.from_row = kLanes;
  pack.from_chunk = other;
  pack.k = kStepSamples;
  pack.width = static_cast<int>(vectors);
  pack.to = to;
  pack.to_row = kStepSamples;
  kernels.pack_left_rows(pack);
}

// One pixel of dy: all groups of outputs. `other` as above. The samples of each output are added to
// its 16 of `sums`, if there are any.
void PackSamplePairs(const Bf16Kernels& kernels, const float* from, int64_t other, int outputs, float* sums, uint16_t* to) {
  Bf16PackArgs pack;
  pack.from_row = kLanes;
  pack.from_chunk = other;
  pack.k = static_cast<int>(other == 0 ? kLanes : kStepSamples);
  for (int o = 0; o < outputs; o += kLanes, to += kGroupStep) {
    pack.from = from + int64_t{o} * kLanes;
    pack.width = std::min(kLanes, outputs - o);
    pack.to = to;
    pack.sums = sums == nullptr ? nullptr : sums + int64_t{o} * kLanes;
    kernels.pack_right_rows(pack);
  }
}

// Products of all groups of outputs; what differs is the caller's.
Bf16ProductArgs MakeGradientProduct(const Bf16Tiling& tiling, int outputs) {
  Bf16ProductArgs product;
  tiling.ApplyTo(product);
  product.groups = static_cast<int>(GroupsFor(outputs));
  product.last_lanes = LastLanes(outputs);
  product.a_row = kStepSamples;
  product.b_group = kGroupStep;
  product.c_row = product.start_row = outputs;
  product.c_group = product.start_group = kLanes;
  return product;
}

// The geometry of a run: chunks of rows of dy, with the padded rows of x under them.
struct ChunkPlan {
  Bf16Tiling tiling;
  int64_t panel_pairs, padded_w, x_pixel, x_row, dy_pixel, dy_row;  // elements, but for the first two
  int rows;                                                         // of dy at a time
  int outputs;
  int64_t x_elements, dy_elements;
  int unit;               // rows of dy that are packed together: those of a row of windows
  int64_t band_elements;  // of a thread: the gradient before the pool, of a unit of both panels

  ChunkPlan(const ConvShape& shape, const PoolArgs* pool)
      : tiling(int64_t{shape.kernel_w} * shape.channels, kMostTilePairs), outputs(shape.outputs) {
    panel_pairs = (shape.panels + 1) / 2;
    padded_w = int64_t{shape.out_w - 1} * shape.stride_w + shape.kernel_w;
    x_pixel = shape.channels * kStepSamples;
    x_row = padded_w * x_pixel;
    dy_pixel = GroupsFor(shape.outputs) * kGroupStep;
    dy_row = shape.out_w * dy_pixel;
    const int64_t bytes = 2 * shape.out_h * (x_row * shape.stride_h + dy_row);
    const auto chunks = static_cast<int>(std::clamp<int64_t>((bytes + kChunkBytes - 1) / kChunkBytes, 1, shape.out_h));
    unit = pool == nullptr ? 1 : pool->size_h;
    rows = ((shape.out_h + chunks - 1) / chunks + unit - 1) / unit * unit;
    band_elements = pool == nullptr ? 0 : 2 * unit * BandRow(shape);
    // Rows of the last block that no result needs are read too.
    x_elements = InputRows(shape, rows) * x_row + kMostTileRows * kStepSamples;
    dy_elements = rows * dy_row;
  }

  static int64_t InputRows(const ConvShape& shape, int out_rows) { return int64_t{out_rows - 1} * shape.stride_h + shape.kernel_h; }
  static int64_t BandRow(const ConvShape& shape) { return int64_t{shape.out_w} * shape.outputs * kLanes; }
  // Of dy, for each row of a chunk: they do not depend on the threads that add them.
  int64_t sums_floats() const { return int64_t{rows} * outputs * kLanes; }
};

struct ChunkRows {
  int64_t panel;  // the first of two
  int64_t other;  // panels from it to the other: 1, or 0 without another
  int begin, end;
};

// Row `r` of the padded image under a chunk.
void PackImageRow(const ConvShape& shape, const ChunkPlan& plan, const ChunkRows& chunk, int64_t r, const Bf16Operands& operands,
                  uint16_t* image, const Bf16Kernels& kernels) {
  uint16_t* to = image + r * plan.x_row;
  const int64_t row = int64_t{chunk.begin} * shape.stride_h - shape.pad_top + r;
  if (row < 0 || row >= shape.in_h) {
    std::fill_n(to, plan.x_row, uint16_t{0});
    return;
  }
  const int64_t left = std::min<int64_t>(shape.pad_left, plan.padded_w);
  const int64_t inside = std::min<int64_t>(plan.padded_w - left, shape.in_w);
  const int64_t panel = int64_t{shape.in_h} * shape.in_w * shape.channels * kLanes;
  std::fill_n(to, left * plan.x_pixel, uint16_t{0});
  const int64_t from = chunk.panel * panel + row * shape.in_w * shape.channels * kLanes;
  PackSamples(kernels, operands, from, chunk.other * panel, inside * shape.channels, to + left * plan.x_pixel);
  std::fill_n(to + (left + inside) * plan.x_pixel, plan.x_row - (left + inside) * plan.x_pixel, uint16_t{0});
}

// A row of dy, from element `from` of the chunk's first panel on.
void PackGradientRow(const ConvShape& shape, const ChunkPlan& plan, int64_t from, int64_t other, const Bf16Operands& operands, float* sums,
                     uint16_t* to, const Bf16Kernels& kernels) {
  for (int column = 0; column < shape.out_w; ++column, from += int64_t{shape.outputs} * kLanes, to += plan.dy_pixel) {
    if (operands.dy_in_pairs) {
      kernels.turn_right(static_cast<const uint16_t*>(operands.dy) + from, other, shape.outputs, sums, to);
    } else {
      PackSamplePairs(kernels, static_cast<const float*>(operands.dy) + from, other, shape.outputs, sums, to);
    }
  }
}

// The gradient before the pool of the row of windows at row `r` of a chunk, both panels.
void UnpoolWindows(const ConvShape& shape, const ChunkPlan& plan, const ChunkRows& chunk, int64_t r, const PoolArgs& pool, uint16_t* band,
                   const Bf16Kernels& kernels) {
  const int64_t row = (chunk.begin + r) / pool.size_h;
  for (int64_t panel = 0; panel <= chunk.other; ++panel) {
    PoolArgs part = GradientBand(pool, chunk.panel + panel, row, /*windows=*/1, pool.size_h, sizeof(uint16_t));
    part.y = reinterpret_cast<float*>(band + panel * plan.unit * ChunkPlan::BandRow(shape));
    kernels.max_pool_gradient(part, 0, 1);
  }
}

// The rows of dy of the unit at row `r` of a chunk; `band` is the thread's own.
void PackUnit(const ConvShape& shape, const ChunkPlan& plan, const ChunkRows& chunk, int64_t r, const Bf16Operands& operands,
              uint16_t* band, float* sums, uint16_t* to, const Bf16Kernels& kernels) {
  const int64_t row = ChunkPlan::BandRow(shape);
  const int64_t panel = shape.out_h * row;
  if (operands.pool == nullptr) {
    return PackGradientRow(shape, plan, chunk.panel * panel + (chunk.begin + r) * row, chunk.other * panel, operands, sums, to, kernels);
  }
  const int64_t rows = std::min<int64_t>(plan.unit, chunk.end - chunk.begin - r);
  if ((chunk.begin + r) / plan.unit >= operands.pool->out_h) {  // behind the last window
    std::fill_n(to, rows * plan.dy_row, uint16_t{0});
    return;
  }
  UnpoolWindows(shape, plan, chunk, r, *operands.pool, band, kernels);
  const Bf16Operands of_band = {.x = nullptr, .dy = band, .x_in_pairs = false, .dy_in_pairs = true};
  for (int64_t i = 0; i < rows; ++i) {
    PackGradientRow(shape, plan, i * row, chunk.other * plan.unit * row, of_band,
                    sums == nullptr ? nullptr : sums + i * shape.outputs * kLanes, to + i * plan.dy_row, kernels);
  }
}

}  // namespace

size_t Bf16WeightGradientScratchFloats(const ConvShape& shape, const PoolArgs* pool, int threads) {
  const ChunkPlan plan(shape, pool);
  return static_cast<size_t>(FloatsOf(plan.x_elements) + FloatsOf(plan.dy_elements) + plan.sums_floats() +
                             threads * FloatsOf(plan.band_elements));
}

void RunBf16WeightGradient(const ConvShape& shape, const Bf16Operands& operands, float* dw, float* db, float* scratch, CpuDevice& device) {
  const ChunkPlan plan(shape, operands.pool);
  auto* const image = reinterpret_cast<uint16_t*>(scratch);
  auto* const gradient = reinterpret_cast<uint16_t*>(scratch + FloatsOf(plan.x_elements));
  float* const all_sums = scratch + FloatsOf(plan.x_elements) + FloatsOf(plan.dy_elements);
  float* const bands = all_sums + plan.sums_floats();
  float* const sums = db == nullptr ? nullptr : all_sums;
  if (sums != nullptr) std::fill_n(sums, plan.sums_floats(), 0.0f);
  bool first = true;
  const auto add_chunk = [&](const ChunkRows& chunk) {
    const int rows = chunk.end - chunk.begin;
    const int64_t image_rows = ChunkPlan::InputRows(shape, rows);
    device.pool.Run(image_rows + (rows + plan.unit - 1) / plan.unit, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t r = begin; r < std::min(end, image_rows); ++r) PackImageRow(shape, plan, chunk, r, operands, image, *device.bf16);
      auto* const band = reinterpret_cast<uint16_t*>(bands + thread * FloatsOf(plan.band_elements));
      for (int64_t u = std::max(begin, image_rows) - image_rows; u < end - image_rows; ++u) {
        const int64_t r = u * plan.unit;
        PackUnit(shape, plan, chunk, r, operands, band, sums == nullptr ? nullptr : sums + r * shape.outputs * kLanes,
                 gradient + r * plan.dy_row, *device.bf16);
      }
    });
    device.pool.Run(int64_t{shape.kernel_h} * plan.tiling.blocks, [&](int64_t begin, int64_t end, int) {
      const Bf16Section section(device, plan.tiling);
      Bf16ProductArgs product = MakeGradientProduct(plan.tiling, shape.outputs);
      product.outer = rows;
      product.inner = shape.out_w;
      product.a_outer = shape.stride_h * plan.x_row;
      product.a_inner = shape.stride_w * plan.x_pixel;
      product.b = gradient;
      product.b_outer = plan.dy_row;
      product.b_inner = plan.dy_pixel;
      const int64_t run = int64_t{shape.kernel_w} * shape.channels;
      for (int64_t h = begin / plan.tiling.blocks; h * plan.tiling.blocks < end; ++h) {
        const int64_t row = std::max<int64_t>(0, begin - h * plan.tiling.blocks) * plan.tiling.block;
        const int64_t row_end = std::min(run, (end - h * plan.tiling.blocks) * plan.tiling.block);
        product.rows = static_cast<int>(row_end - row);
        product.a = image + h * plan.x_row + row * kStepSamples;
        product.c = dw + (h * run + row) * shape.outputs;
        product.start = first ? nullptr : product.c;
        section.Run(product);
      }
    });
    first = false;
  };
  for (int64_t pair = 0; pair < plan.panel_pairs; ++pair) {
    for (int begin = 0; begin < shape.out_h; begin += plan.rows) {
      add_chunk({2 * pair, 2 * pair + 1 < shape.panels ? 1 : 0, begin, std::min(shape.out_h, begin + plan.rows)});
    }
  }
  if (db != nullptr) RunBiasGradient(device, sums, db, plan.rows, shape.outputs);
}

namespace {

int64_t PixelPairs(const Bf16DenseShape& shape) { return (shape.pixels + 1) / 2; }
int64_t LeftElements(const Bf16DenseShape& shape) { return (PixelPairs(shape) * shape.in + kMostTileRows) * kStepSamples; }

}  // namespace

size_t Bf16DenseWeightGradientScratchFloats(const Bf16DenseShape& shape) {
  return static_cast<size_t>(FloatsOf(LeftElements(shape)) + FloatsOf(PixelPairs(shape) * GroupsFor(shape.out) * kGroupStep));
}

void RunBf16DenseWeightGradient(const Bf16DenseShape& shape, const Bf16Operands& operands, float* dw, float* scratch, CpuDevice& device) {
  const Bf16Tiling tiling(shape.in, kMostTilePairs);
  auto* const left = reinterpret_cast<uint16_t*>(scratch);
  auto* const right = reinterpret_cast<uint16_t*>(scratch + FloatsOf(LeftElements(shape)));
  const int64_t left_pair = shape.in * kStepSamples;
  const int64_t right_pair = GroupsFor(shape.out) * kGroupStep;
  device.pool.Run(PixelPairs(shape), [&](int64_t begin, int64_t end, int) {
    for (int64_t pair = begin; pair < end; ++pair) {
      const int64_t other = 2 * pair + 1 < shape.pixels ? 1 : 0;
      const int64_t x_pixel = int64_t{shape.in} * kLanes;
      const int64_t dz_pixel = int64_t{shape.out} * kLanes;
      PackSamples(*device.bf16, operands, 2 * pair * x_pixel, other * x_pixel, shape.in, left + pair * left_pair);
      PackSamplePairs(*device.bf16, static_cast<const float*>(operands.dy) + 2 * pair * dz_pixel, other * dz_pixel, shape.out, nullptr,
                      right + pair * right_pair);
    }
  });
  device.pool.Run(tiling.blocks, [&](int64_t begin, int64_t end, int) {
    const int64_t row = begin * tiling.block;
    Bf16ProductArgs product = MakeGradientProduct(tiling, shape.out);
    product.rows = static_cast<int>(std::min<int64_t>(shape.in, end * tiling.block) - row);
    product.inner = static_cast<int>(PixelPairs(shape));
    product.a = left + row * kStepSamples;
    product.a_inner = left_pair;
    product.b = right;
    product.b_inner = right_pair;
    product.c = dw + row * shape.out;
    Bf16Section(device, tiling).Run(product);
  });
}

}  // namespace trainyard::engine
