// conv_forward: sums over a kernel window with outputs x columns accumulators in registers. One
// chain of multiply-adds per result, in the order kernel row, kernel column, channel, whatever the
// block.
#include <utility>

#include "trainer/backend/cpu/kernels.h"
#include "trainer/backend/cpu/kernels/epilogue.h"
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

constexpr int kMaxBlock = 16;

struct Block {
  const float* x[kMaxColumns];    // the first vector of the first kernel row, per column
  float* y[kMaxColumns];          // the vector of output 0, per column
  const float* add[kMaxColumns];  // what is added to it; the first null: nothing
  int64_t y_output;               // floats from there to the block's first output
  const float* weights;
  const float* bias;
  int64_t x_row, weights_row;  // floats between kernel rows
  int rows, run;               // kernel rows, vectors in a row
  int64_t weights_output;      // floats between outputs, where weights are not packed
};

template <bool kPacked, int kOutputs, int kColumns>
void RunBlock(const Block& block) {
  V sum[kOutputs][kColumns];
  const bool adds = block.add[0] != nullptr;
  // Where channels are few, stores of new lines would be waited for.
  for (int j = 0; j < kColumns; ++j) {
    for (int o = 0; o < kOutputs; ++o) PrefetchWrite(block.y[j] + block.y_output + o * kLanes);
    for (int o = 0; adds && o < kOutputs; ++o) PrefetchRead(block.add[j] + block.y_output + o * kLanes);
  }
  for (int o = 0; o < kOutputs; ++o) {
    const V start = Splat(block.bias == nullptr ? 0.0f : block.bias[o]);
    for (int j = 0; j < kColumns; ++j) sum[o][j] = start;
  }
  const float* x[kColumns];
  for (int j = 0; j < kColumns; ++j) x[j] = block.x[j];
  const float* row_weights = block.weights;
  const int64_t run = block.run;
  const int64_t weights_output = block.weights_output;
  for (int r = 0; r < block.rows; ++r) {
    const float* w = row_weights;
    for (int64_t k = 0; k < run * kLanes; k += kLanes) {
      V value[kColumns];
      for (int j = 0; j < kColumns; ++j) value[j] = Load(x[j] + k);
      for (int o = 0; o < kOutputs; ++o) {
        const V weight = Splat(kPacked ? w[o] : w[o * weights_output]);
        for (int j = 0; j < kColumns; ++j) sum[o][j] += value[j] * weight;
      }
      w += kPacked ? kOutputs : 1;
    }
    row_weights += block.weights_row;
    for (int j = 0; j < kColumns; ++j) x[j] += block.x_row;
  }
  for (int j = 0; j < kColumns; ++j) {
    float* y = block.y[j] + block.y_output;
    for (int o = 0; adds && o < kOutputs; ++o) sum[o][j] += Load(block.add[j] + block.y_output + o * kLanes);
    for (int o = 0; o < kOutputs; ++o) Store(y + o * kLanes, sum[o][j]);
  }
}

using BlockFunction = void (*)(const Block&);

// Blocks that registers cannot hold are never asked for (conv_forward_plan.h); leaving them out
// keeps the code small.
template <bool kPacked, int kOutputs, int kColumns>
constexpr BlockFunction BlockOrNull() {
  if constexpr (kOutputs * kColumns <= kMaxSums && kColumns <= kMaxColumns) {
    return RunBlock<kPacked, kOutputs, kColumns>;
  } else {
    return nullptr;
  }
}

struct BlockTable {
  BlockFunction at[kMaxBlock + 1][kMaxColumns + 1];
};
template <bool kPacked, int kOutputs, int... kColumns>
constexpr void FillRow(BlockTable& table, std::integer_sequence<int, kColumns...>) {
  ((table.at[kOutputs][kColumns + 1] = BlockOrNull<kPacked, kOutputs, kColumns + 1>()), ...);
}
template <bool kPacked, int... kOutputs>
constexpr BlockTable MakeTable(std::integer_sequence<int, kOutputs...>) {
  BlockTable table{};
  (FillRow<kPacked, kOutputs + 1>(table, std::make_integer_sequence<int, kMaxColumns>()), ...);
  return table;
}
constexpr BlockTable kPackedBlocks = MakeTable<true>(std::make_integer_sequence<int, kMaxBlock>());
constexpr BlockTable kPlainBlocks = MakeTable<false>(std::make_integer_sequence<int, kMaxBlock>());

// One (group of panels, row of y): where it reads and where it writes.
struct Row {
  const float* x;  // the group's first panel
  float* y;        // its first pixel
  int64_t y_panel;
  int panels;
  int out_row;
};

// The part of a kernel of `extent` taps that falls inside [0, in) when it starts at `start`.
struct Taps {
  int begin, end;
};
inline Taps InsideTaps(int start, int extent, int in) { return {MaxInt(0, -start), MaxInt(MinInt(extent, in - start), MaxInt(0, -start))}; }

class ConvRow {
 public:
  ConvRow(const ConvForwardArgs& args, const Row& row, int block_begin, int block_end)
      : args_(args), shape_(args.shape), row_(row), block_begin_(block_begin), block_end_(block_end) {
    x_column_ = int64_t{shape_.channels} * kLanes;
    x_row_ = x_column_ * shape_.in_w;
    x_panel_ = x_row_ * shape_.in_h;
    first_row_ = row.out_row * shape_.stride_h - shape_.pad_top;
    rows_ = InsideTaps(first_row_, shape_.kernel_h, shape_.in_h);
  }

  void Run() {
    // Pixels whose whole kernel row is inside form [whole_begin, whole_end); those before and after
    // are borders.
    int whole_begin = 0;
    while (whole_begin < shape_.out_w && !WholeInside(whole_begin)) ++whole_begin;
    int whole_end = whole_begin;
    while (whole_end < shape_.out_w && WholeInside(whole_end)) ++whole_end;
    for (int column = 0; column < whole_begin; ++column) OverPanels(column);
    for (int p = 0; p < row_.panels; ++p) OverPixels(p, whole_begin, whole_end);
    for (int column = whole_end; column < shape_.out_w; ++column) OverPanels(column);
  }

 private:
  bool WholeInside(int column) const {
    const int start = column * shape_.stride_w - shape_.pad_left;
    return start >= 0 && start + shape_.kernel_w <= shape_.in_w;
  }

  void OverPanels(int column) {
    const int start = column * shape_.stride_w - shape_.pad_left;
    const Taps taps = InsideTaps(start, shape_.kernel_w, shape_.in_w);
    int parts = (row_.panels + args_.columns - 1) / args_.columns;
    for (int p = 0; parts > 0; --parts) {
      const int columns = (row_.panels - p + parts - 1) / parts;
      Block block;
      for (int j = 0; j < columns; ++j) {
        block.x[j] = row_.x + (p + j) * x_panel_ + (first_row_ + rows_.begin) * x_row_ + (start + taps.begin) * x_column_;
        block.y[j] = row_.y + (p + j) * row_.y_panel + column * args_.y_column;
      }
      RunBlocks(block, columns, taps);
      p += columns;
    }
  }

  void OverPixels(int panel, int begin, int end) {
    if (begin == end) return;
    int parts = (end - begin + args_.columns - 1) / args_.columns;
    for (int column = begin; parts > 0; --parts) {
      const int columns = (end - column + parts - 1) / parts;
      Block block;
      for (int j = 0; j < columns; ++j) {
        const int start = (column + j) * shape_.stride_w - shape_.pad_left;
        block.x[j] = row_.x + panel * x_panel_ + (first_row_ + rows_.begin) * x_row_ + start * x_column_;
        block.y[j] = row_.y + panel * row_.y_panel + (column + j) * args_.y_column;
      }
      RunBlocks(block, columns, {0, shape_.kernel_w});
      column += columns;
    }
  }

  void RunBlocks(Block& block, int columns, Taps taps) {
    const int64_t taps_weights = int64_t{shape_.channels} * shape_.kernel_w;
    block.x_row = x_row_;
    block.rows = taps.begin == taps.end ? 0 : rows_.end - rows_.begin;
    block.run = (taps.end - taps.begin) * shape_.channels;
    block.weights_output = shape_.channels;
    const BlockTable& blocks = args_.packed ? kPackedBlocks : kPlainBlocks;
    block.add[0] = nullptr;
    for (int j = 0; args_.add != nullptr && j < columns; ++j) block.add[j] = args_.add + (block.y[j] - args_.y);
    for (int b = block_begin_; b < block_end_; ++b) {
      const int output = b * args_.block;
      const int outputs = MinInt(args_.block, shape_.outputs - output);
      block.weights_row = taps_weights * outputs;
      block.weights = args_.weights + int64_t{output} * taps_weights * shape_.kernel_h +
                      (rows_.begin * taps_weights + int64_t{taps.begin} * shape_.channels) * outputs;
      block.bias = args_.bias == nullptr ? nullptr : args_.bias + output;
      block.y_output = int64_t{output} * kLanes;
      blocks.at[outputs][columns](block);
    }
  }

  const ConvForwardArgs& args_;
  const ConvShape& shape_;
  const Row row_;
  const int block_begin_, block_end_;
  int64_t x_column_, x_row_, x_panel_;
  int first_row_;
  Taps rows_;
};

// A row of y without a pool: the convolution writes it in place, the activation passes over it
// while it is in the nearest cache.
void PlainRow(const ConvForwardArgs& args, const ConvForwardRange& range, Row row) {
  row.y += row.out_row * args.y_row;
  row.y_panel = args.y_panel;
  ConvRow(args, row, range.block_begin, range.block_end).Run();
  if (args.activation == Activation::kIdentity) return;
  const int first = range.block_begin * args.block;
  const int outputs = MinInt(range.block_end * args.block, args.shape.outputs) - first;
  for (int p = 0; p < row.panels; ++p) {
    for (int column = 0; column < args.shape.out_w; ++column) {
      float* y = row.y + p * row.y_panel + column * args.y_column + first * kLanes;
      Activate(y, y, outputs, args.activation);
    }
  }
}

// A row of y with a pool: the rows of its windows go to scratch, from there the pool and then the
// activation.
void PooledRow(const ConvForwardArgs& args, const ConvForwardRange& range, Row row) {
  const int64_t column = int64_t{args.shape.outputs} * kLanes;
  const int64_t scratch_row = column * args.shape.out_w;
  ConvForwardArgs inner = args;
  inner.y_column = column;
  const int y_row = row.out_row;
  float* y = row.y + y_row * args.y_row;
  uint8_t* argmax = args.argmax == nullptr ? nullptr : args.argmax + (y - args.y);
  for (int r = 0; r < args.pool_h; ++r) {
    row.out_row = y_row * args.pool_h + r;
    row.y = args.scratch + r * scratch_row;
    row.y_panel = scratch_row * args.pool_h;
    ConvRow(inner, row, range.block_begin, range.block_end).Run();
  }
  const int windows = args.shape.out_w / args.pool_w;
  for (int p = 0; p < row.panels; ++p) {
    for (int w = 0; w < windows; ++w) {
      const float* window = args.scratch + p * scratch_row * args.pool_h + w * args.pool_w * column;
      float* out = y + p * args.y_panel + w * args.y_column;
      uint8_t* winner = argmax == nullptr ? nullptr : argmax + p * args.y_panel + w * args.y_column;
      MaxWindow(window, scratch_row, column, args.pool_h, args.pool_w, 0, args.pool_w, args.shape.outputs, out, winner);
      if (args.activation != Activation::kIdentity) Activate(out, out, args.shape.outputs, args.activation);
    }
  }
}

// to[c][o] = from[o][c] for a block of outputs; the copy for a known block is unrolled.
using TransposedCopy = void (*)(const float* from, int64_t from_row, float* to, int inputs, int block);
template <int kBlock>
void CopyTransposed(const float* from, int64_t from_row, float* to, int inputs, int block) {
  if constexpr (kBlock > 0) block = kBlock;
  for (int c = 0; c < inputs; ++c) {
    for (int o = 0; o < block; ++o) to[o] = from[o * from_row + c];
    to += block;
  }
}
struct TransposedCopyTable {
  TransposedCopy at[kMaxBlock + 1];
};
template <int... kBlock>
constexpr TransposedCopyTable MakeCopies(std::integer_sequence<int, kBlock...>) {
  return {{CopyTransposed<kBlock>...}};
}
constexpr TransposedCopyTable kTransposedCopies = MakeCopies(std::make_integer_sequence<int, kMaxBlock + 1>());

}  // namespace

namespace TRAINYARD_ISA {

void ConvForward(const ConvForwardArgs& args, const ConvForwardRange& range) {
  const int64_t x_panel = int64_t{args.shape.in_h} * args.shape.in_w * args.shape.channels * kLanes;
  const int rows = args.shape.out_h / args.pool_h;
  for (int unit = range.unit_begin; unit < range.unit_end; ++unit) {
    const int first = unit / rows * args.group;
    Row row;
    row.x = args.x + first * x_panel;
    row.y = args.y + first * args.y_panel;
    row.panels = MinInt(args.group, args.shape.panels - first);
    row.out_row = unit % rows;
    if (!args.max_pool) {
      PlainRow(args, range, row);
    } else {
      PooledRow(args, range, row);
    }
  }
}

void Pack(const PackArgs& args) {
  const int outputs = args.transposed ? args.in : args.out;
  const int inputs = args.transposed ? args.out : args.in;
  const int taps_h = (args.kernel_h - args.first_h + args.step_h - 1) / args.step_h;
  const int taps_w = (args.kernel_w - args.first_w + args.step_w - 1) / args.step_w;
  const int end = args.block_end < (outputs + args.block - 1) / args.block ? args.block_end * args.block : outputs;
  float* to = args.packed + int64_t{args.block_begin} * args.block * inputs * taps_h * taps_w;
  for (int output = args.block_begin * args.block; output < end; output += args.block) {
    const int block = MinInt(args.block, outputs - output);
    for (int h = 0; h < taps_h; ++h) {
      for (int w = 0; w < taps_w; ++w) {
        const int tap_h = args.first_h + (args.transposed ? taps_h - 1 - h : h) * args.step_h;
        const int tap_w = args.first_w + (args.transposed ? taps_w - 1 - w : w) * args.step_w;
        const float* from = args.weights + (int64_t{tap_h} * args.kernel_w + tap_w) * args.in * args.out;
        if (args.transposed) {
          kTransposedCopies.at[block <= kMaxBlock ? block : 0](from + int64_t{output} * args.out, args.out, to, inputs, block);
        } else {
          // A whole vector is stored where later ones overwrite what is too much.
          const bool wide = block <= kLanes && output + kLanes <= end;
          const float* c_from = from + output;
          for (int c = 0; c < inputs; ++c, c_from += args.out) {
            if (wide) {
              StoreUnaligned(to + int64_t{c} * block, LoadUnaligned(c_from));
            } else {
              for (int o = 0; o < block; ++o) to[int64_t{c} * block + o] = c_from[o];
            }
          }
        }
        to += int64_t{inputs} * block;
      }
    }
  }
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
