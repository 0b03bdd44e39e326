// conv_weight_gradient. Lanes of an accumulator are partial sums over samples. They are added
// across lanes at the end of a block of pixels.
#include <utility>

#include "trainer/backend/cpu/kernels.h"
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

constexpr int kMaxSide = 6;
constexpr int64_t kBlockBytes = 20 * 1024;  // of x and dy in the nearest cache

// Pixels of x and dy that lie under one kernel tap.
struct Pixels {
  const float* x;
  const float* dy;
  int64_t x_column, x_row, x_panel;
  int64_t dy_column, dy_row, dy_panel;
  int columns, rows, panels;
};

// dw[i][o] += sum over pixels and lanes of x[i] * dy[o].
template <int kInputs, int kOutputs>
void RunBlock(const Pixels& pixels, float* dw, int64_t dw_row) {
  constexpr int kSums = (kInputs * kOutputs + kLanes - 1) / kLanes * kLanes;
  V sum[kSums] = {};
  for (int p = 0; p < pixels.panels; ++p) {
    for (int r = 0; r < pixels.rows; ++r) {
      const float* x = pixels.x + p * pixels.x_panel + r * pixels.x_row;
      const float* dy = pixels.dy + p * pixels.dy_panel + r * pixels.dy_row;
      for (int c = 0; c < pixels.columns; ++c) {
        V input[kInputs];
        for (int i = 0; i < kInputs; ++i) input[i] = Load(x + i * kLanes);
        for (int o = 0; o < kOutputs; ++o) {
          const V output = Load(dy + o * kLanes);
          for (int i = 0; i < kInputs; ++i) sum[i * kOutputs + o] += input[i] * output;
        }
        x += pixels.x_column;
        dy += pixels.dy_column;
      }
    }
  }
  alignas(64) float sums[kSums];
  for (int s = 0; s < kSums; s += kLanes) Store(sums + s, SumLanes(sum + s));
  for (int i = 0; i < kInputs; ++i) {
    for (int o = 0; o < kOutputs; ++o) dw[i * dw_row + o] += sums[i * kOutputs + o];
  }
}

// db[o] += the sum over pixels and lanes of dy[o], for up to kMaxSide outputs.
void AddBias(const Pixels& pixels, int outputs, float* db) {
  V sum[kLanes] = {};
  for (int p = 0; p < pixels.panels; ++p) {
    for (int r = 0; r < pixels.rows; ++r) {
      const float* dy = pixels.dy + p * pixels.dy_panel + r * pixels.dy_row;
      for (int c = 0; c < pixels.columns; ++c, dy += pixels.dy_column) {
        for (int o = 0; o < outputs; ++o) sum[o] += Load(dy + o * kLanes);
      }
    }
  }
  alignas(64) float sums[kLanes];
  Store(sums, SumLanes(sum));
  for (int o = 0; o < outputs; ++o) db[o] += sums[o];
}

using BlockFunction = void (*)(const Pixels&, float*, int64_t);
struct BlockTable {
  BlockFunction at[kMaxSide + 1][kMaxSide + 1];
};
// The registers suffice for a block of so many inputs and outputs.
constexpr bool HasBlock(int inputs, int outputs) { return inputs * outputs + inputs < kVectors || (inputs <= 2 && outputs <= 2); }
template <int kInputs, int kOutputs>
constexpr BlockFunction BlockOrNull() {
  if constexpr (HasBlock(kInputs, kOutputs)) {
    return RunBlock<kInputs, kOutputs>;
  } else {
    return nullptr;
  }
}
template <int kInputs, int... kOutputs>
constexpr void FillRow(BlockTable& table, std::integer_sequence<int, kOutputs...>) {
  ((table.at[kInputs][kOutputs + 1] = BlockOrNull<kInputs, kOutputs + 1>()), ...);
}
template <int... kInputs>
constexpr BlockTable MakeTable() {
  BlockTable table{};
  (FillRow<kInputs>(table, std::make_integer_sequence<int, kMaxSide>()), ...);
  return table;
}
constexpr BlockTable kBlocks = MakeTable<1, 2, 3, 4, 5, 6>();

// Inputs x outputs held at a time.
struct Side {
  int inputs, outputs;
};
inline Side ChooseSide(int inputs, int outputs) {
  if constexpr (kVectors < 32) {
    constexpr int kSide = kVectors >= 16 ? 3 : 2;
    static_assert(HasBlock(kSide, kSide));
    return {kSide, kSide};
  }
  Side best = {5, 5};
  int best_steps = 1 << 30;
  // A multiply-add costs 1, a vector loaded half of that. A block with fewer sums than the adders'
  // depth waits for them.
  const Side sides[] = {{5, 5}, {4, 6}, {6, 4}, {4, 5}, {5, 4}, {4, 4}, {3, 6}, {6, 3}};
  for (const Side side : sides) {
    int steps = 0;
    for (int i = 0; i < inputs; i += side.inputs) {
      const int width = MinInt(side.inputs, inputs - i);
      for (int o = 0; o < outputs; o += side.outputs) {
        const int height = MinInt(side.outputs, outputs - o);
        steps += MaxInt(8, width * height) * 4 + (width + height);
      }
    }
    if (steps < best_steps) {
      best_steps = steps;
      best = side;
    }
  }
  return best;
}

struct Range {
  int begin, end;
};
// The output positions whose tap `tap` falls inside [0, in).
inline Range InsideOutputs(int tap, int pad, int stride, int in, int out) {
  const int begin = pad - tap > 0 ? (pad - tap + stride - 1) / stride : 0;
  const int last = in - 1 + pad - tap;
  return {begin, last < 0 ? begin : MaxInt(begin, MinInt(out, last / stride + 1))};
}

// Without padding a kernel row is one run of inputs.
inline ConvShape InRuns(ConvShape shape) {
  if (shape.pad_left == 0 && (shape.out_w - 1) * shape.stride_w + shape.kernel_w <= shape.in_w) {
    shape.channels *= shape.kernel_w;
    shape.kernel_w = 1;
  }
  return shape;
}

}  // namespace

namespace TRAINYARD_ISA {

int ConvWeightGradientBlock(const ConvShape& shape) { return ChooseSide(InRuns(shape).channels, shape.outputs).outputs; }

void ConvWeightGradient(const ConvWeightGradientArgs& args) {
  ConvShape shape = args.shape;
  const int64_t x_pixel = int64_t{shape.channels} * kLanes;
  const int64_t x_row = x_pixel * shape.in_w;
  const int64_t x_panel = x_row * shape.in_h;
  const int64_t dy_column = int64_t{shape.outputs} * kLanes;
  const int64_t dy_row = dy_column * shape.out_w;
  const int64_t dy_panel = dy_row * shape.out_h;
  shape = InRuns(shape);
  const Side side = ChooseSide(shape.channels, shape.outputs);
  for (int64_t k = 0; !args.accumulate && k < int64_t{shape.kernel_h} * shape.kernel_w * shape.channels; ++k) {
    for (int o = args.output_begin; o < args.output_end; ++o) args.dw[k * shape.outputs + o] = 0.0f;
  }
  for (int o = args.output_begin; !args.accumulate && args.db != nullptr && o < args.output_end; ++o) args.db[o] = 0.0f;
  // Pixels whose x and dy stay in the nearest cache while all taps pass over them.
  const int64_t row_bytes = int64_t{shape.out_w} * 64 * (side.outputs + side.inputs);
  const int row_block = MaxInt(1, MinInt(shape.out_h, static_cast<int>(kBlockBytes / row_bytes)));
  const int panel_block =
      row_block < shape.out_h ? 1 : MaxInt(1, MinInt(shape.panels, static_cast<int>(kBlockBytes / (row_bytes * shape.out_h))));
  for (int panel = 0; panel < shape.panels; panel += panel_block) {
    for (int first = 0; first < shape.out_h; first += row_block) {
      for (int o = args.output_begin; o < args.output_end; o += side.outputs) {
        const int outputs = MinInt(side.outputs, args.output_end - o);
        Pixels pixels;
        pixels.x_column = x_pixel * shape.stride_w;
        pixels.x_row = x_row * shape.stride_h;
        pixels.x_panel = x_panel;
        pixels.dy_column = dy_column;
        pixels.dy_row = dy_row;
        pixels.dy_panel = dy_panel;
        pixels.panels = MinInt(panel_block, shape.panels - panel);
        const float* dy = args.dy + panel * dy_panel + int64_t{o} * kLanes;
        if (args.db != nullptr) {
          pixels.dy = dy + first * dy_row;
          pixels.rows = MinInt(row_block, shape.out_h - first);
          pixels.columns = shape.out_w;
          AddBias(pixels, outputs, args.db + o);
        }
        for (int i = 0; i < shape.channels; i += side.inputs) {
          const int inputs = MinInt(side.inputs, shape.channels - i);
          const BlockFunction run = kBlocks.at[inputs][outputs];
          for (int h = 0; h < shape.kernel_h; ++h) {
            Range rows = InsideOutputs(h, shape.pad_top, shape.stride_h, shape.in_h, shape.out_h);
            rows = {MaxInt(rows.begin, first), MinInt(rows.end, first + row_block)};
            if (rows.begin >= rows.end) continue;
            for (int w = 0; w < shape.kernel_w; ++w) {
              const Range columns = InsideOutputs(w, shape.pad_left, shape.stride_w, shape.in_w, shape.out_w);
              if (columns.begin >= columns.end) continue;
              pixels.x = args.x + panel * x_panel + (rows.begin * shape.stride_h - shape.pad_top + h) * x_row +
                         (columns.begin * shape.stride_w - shape.pad_left + w) * x_pixel + int64_t{i} * kLanes;
              pixels.dy = dy + rows.begin * dy_row + columns.begin * dy_column;
              pixels.columns = columns.end - columns.begin;
              pixels.rows = rows.end - rows.begin;
              float* dw = args.dw + ((int64_t{h} * shape.kernel_w + w) * shape.channels + i) * shape.outputs + o;
              run(pixels, dw, shape.outputs);
            }
          }
        }
      }
    }
  }
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
