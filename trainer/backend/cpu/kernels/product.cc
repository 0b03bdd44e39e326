// product: outputs are lanes. Rows x vectors of accumulators, one value of `a` spread over all
// lanes per multiply-add.
#include <utility>

#include "trainer/backend/cpu/kernels.h"
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

// The sums, a vector of b for each column of them and the value of `a` stay in registers.
constexpr int kMaxRows = kVectors >= 32 ? 12 : kVectors >= 8 ? 6 : 2;
constexpr int kMaxVectors = kVectors >= 32 ? 4 : kVectors >= 16 ? 2 : 1;
constexpr int kMaxTile = kVectors >= 32 ? 24 : kVectors >= 16 ? 12 : kVectors >= 8 ? 6 : 2;  // rows x vectors

constexpr int kBlockColumns = kMaxVectors * kLanes;
// Columns of b that rows pass before the next ones: those of a panel, which is in a near cache
// (kMaxProductSteps). Rows of a that have been read are there for all of them.
constexpr int kStrip = 4 * kLanes;
static_assert(kBlockColumns == kStrip || kMaxRows * kMaxVectors <= kMaxTile, "all blocks of a strip take as many rows");

// Rows of a whose addresses are made from one.
constexpr int kRowsOfPointer = kVectors >= 32 ? 4 : 3;

constexpr int Vectors(int columns) { return (columns + kLanes - 1) / kLanes; }

// The lines of rows that are read soon, one after another. Products fetch them into the cache, so
// that they need not wait for their own operands.
class Lines {
 public:
  void Add(const FetchAhead& rows) {
    if (rows.rows <= 0) return;
    count_ += rows.rows * Vectors(rows.floats);
    parts_[end_++] = rows;
  }
  int count() const { return count_; }
  void Begin() {
    if (end_ > 0) Enter(parts_[0]);
  }
  // Behind the last line it stays there.
  const float* Next() {
    const float* const line = at_;
    at_ += kLanes;
    if (at_ >= row_end_) NextRow();
    return line;
  }

 private:
  void Enter(const FetchAhead& rows) {
    at_ = rows.from;
    row_end_ = at_ + rows.floats;
    stride_ = rows.row_stride;
    floats_ = rows.floats;
    rows_ = rows.rows;
  }
  void NextRow() {
    if (--rows_ > 0) {
      row_end_ += stride_;
      at_ = row_end_ - floats_;
    } else if (part_ + 1 < end_) {
      Enter(parts_[++part_]);
    } else {
      at_ -= kLanes;
    }
  }

  FetchAhead parts_[3];
  int part_ = 0, end_ = 0, count_ = 0;
  const float* at_ = nullptr;
  const float* row_end_ = nullptr;
  int64_t stride_ = 0, floats_ = 0;
  int rows_ = 0;
};

struct Block {
  const float* a;
  const float* b;
  const float* bias;
  float* c;
  int columns;  // of this block, the last vector perhaps in part
  int passes;   // blocks side by side, all of whole vectors where they are several
  Lines* lines;
  int interval;  // a line is fetched every so many times kStepsOfFetch steps of k
};

void CopyRow(const float* from, float* to, int columns) {
  for (int i = 0; i < columns; i += kLanes) StorePart(to + i, LoadPart(from + i, columns - i), columns - i);
}

// kRow and kStep are a's strides where they are known (0: take them from the arguments).
template <int kRows, int kColumns, int kRow, int kStep>
void RunBlock(const ProductArgs& args, const Block& block) {
  const bool whole = block.columns == kColumns * kLanes;
  // The end of a row beyond whole vectors goes through copies. So do the last rows of b, whose
  // vectors would reach beyond its end. They are several only where rows are shorter than a vector.
  constexpr int kWidth = kColumns * kLanes;
  constexpr int kMostTailRows = kColumns == 1 ? kLanes : 1;
  constexpr int kPointers = (kRows + kRowsOfPointer - 1) / kRowsOfPointer;
  alignas(64) float tile[kRows][kWidth];
  alignas(64) float tail[kMostTailRows * kWidth];
  int tail_rows = 0;
  if (!whole) {
    tail_rows = MinInt(args.k, static_cast<int>((kWidth - block.columns + args.b_k - 1) / args.b_k));
    for (int r = 0; r < kRows; ++r) Store(&tile[r][kWidth - kLanes], V{});
    for (int t = 0; t < tail_rows; ++t) {
      const int k = args.k - tail_rows + t;
      float* row = tail + t * kWidth;
      Store(row + kWidth - kLanes, V{});
      CopyRow(block.b + k / args.chunk * args.b_chunk + k % args.chunk * args.b_k, row, block.columns);
    }
  }
  const float* tail_end = tail + tail_rows * kWidth;
  const int64_t a_row = kRow != 0 ? kRow : args.a_row;
  const int64_t a_k = kStep != 0 ? kStep : args.a_k;
  Lines& lines = *block.lines;
  int wait = block.interval;
  V sum[kRows][kColumns];
  const float* a[kPointers];
  const auto step = [&](const float* row) __attribute__((always_inline)) {
    V vector[kColumns];
    for (int j = 0; j < kColumns; ++j) vector[j] = LoadUnaligned(row + j * kLanes);
    // Else addresses of all rows are made beforehand, more than there are registers.
    for (int i = 0; i < kPointers && kRow == 0; ++i) asm("" : "+r"(a[i]));
#pragma clang loop unroll(full)
    for (int r = 0; r < kRows; ++r) {
      const V value = Splat(a[r / kRowsOfPointer][r % kRowsOfPointer * a_row]);
      for (int j = 0; j < kColumns; ++j) sum[r][j] = MultiplyAdd(vector[j], value, sum[r][j]);
    }
    for (int i = 0; i < kPointers; ++i) a[i] += a_k;
  };
  const auto multiply = [&](const float* row, int64_t row_step, int steps) __attribute__((always_inline)) {
    for (; steps >= kStepsOfFetch; steps -= kStepsOfFetch, row += kStepsOfFetch * row_step) {
      if (--wait == 0) {
        wait = block.interval;
        __builtin_prefetch(lines.Next());
      }
#pragma clang loop unroll(full)
      for (int i = 0; i < kStepsOfFetch; ++i) step(row + i * row_step);
    }
    for (; steps > 0; --steps, row += row_step) step(row);
  };
  const auto add_up = [&](const float* b_chunk) __attribute__((always_inline)) {
    int rows_left = args.k;
    const float* a_chunk = block.a;
    while (rows_left > 0) {
      for (int i = 0; i < kPointers; ++i) {
        a[i] = a_chunk + i * kRowsOfPointer * a_row;
        asm("" : "+r"(a[i]));  // else they are made of each other again, in each step
      }
      const int steps = MinInt(args.chunk, rows_left);
      const int of_b = MinInt(steps, MaxInt(rows_left - tail_rows, 0));
      multiply(b_chunk, args.b_k, of_b);
      if (of_b < steps) multiply(tail_end - (rows_left - of_b) * kWidth, kWidth, steps - of_b);
      rows_left -= steps;
      a_chunk += args.a_chunk;
      b_chunk += args.b_chunk;
    }
  };
  const int passes = kBlockColumns == kStrip ? 1 : block.passes;
  for (int pass = 0; pass < passes; ++pass) {
    float* const c = block.c + pass * kWidth;
    const float* const bias = block.bias == nullptr ? nullptr : block.bias + pass * kWidth;
    if (args.accumulate || bias != nullptr) {
      const float* start = args.accumulate ? c : bias;
      int64_t start_row = args.accumulate ? args.c_row : 0;
      if (!whole) {
        for (int r = 0; r < kRows; ++r) CopyRow(start + r * start_row, tile[r], block.columns);
        start = tile[0];
        start_row = kWidth;
      }
      for (int r = 0; r < kRows; ++r) {
        for (int j = 0; j < kColumns; ++j) sum[r][j] = LoadUnaligned(start + r * start_row + j * kLanes);
      }
    } else {
      for (int r = 0; r < kRows; ++r) {
        for (int j = 0; j < kColumns; ++j) sum[r][j] = V{};
      }
    }
    add_up(block.b + pass * kWidth);
    float* const to = whole ? c : tile[0];
    const int64_t to_row = whole ? args.c_row : kWidth;
    for (int r = 0; r < kRows; ++r) {
      for (int j = 0; j < kColumns; ++j) StoreUnaligned(to + r * to_row + j * kLanes, sum[r][j]);
    }
    for (int r = 0; r < kRows && !whole; ++r) CopyRow(tile[r], c + r * args.c_row, block.columns);
  }
}

// Rows that the caller reads next, some for each block.
class AheadRows {
 public:
  AheadRows(const FetchAhead& ahead, int blocks) : left_(ahead), of_a_block_((ahead.rows + blocks - 1) / blocks) {}
  FetchAhead Take() {
    FetchAhead taken = left_;
    taken.rows = MinInt(of_a_block_, left_.rows);
    left_.from += taken.rows * left_.row_stride;
    left_.rows -= taken.rows;
    return taken;
  }

 private:
  FetchAhead left_;
  int of_a_block_;
};

// Rows of c in one strip of it.
struct StripRows {
  int row, rows, column, columns;
};

// What a block fetches of c. Sums are read at a block's begin, those of the next rows are on their
// way by then. What is only written is wanted at a block's end.
FetchAhead Sums(const ProductArgs& args, const StripRows& strip) {
  const int row = args.accumulate ? strip.row + strip.rows : strip.row;
  return {args.c + row * args.c_row + strip.column, args.c_row, MinInt(strip.rows, args.rows - row), strip.columns};
}

using BlockFunction = void (*)(const ProductArgs&, const Block&);
struct BlockTable {
  BlockFunction at[kMaxRows + 1][kMaxVectors + 1];
};
template <int kRow, int kStep, int kRows, int kColumns>
constexpr BlockFunction BlockOrNull() {
  if constexpr (kRows * kColumns <= kMaxTile) {
    return RunBlock<kRows, kColumns, kRow, kStep>;
  } else {
    return nullptr;
  }
}
template <int kRow, int kStep, int kRows, int... kColumns>
constexpr void FillRow(BlockTable& table, std::integer_sequence<int, kColumns...>) {
  ((table.at[kRows][kColumns + 1] = BlockOrNull<kRow, kStep, kRows, kColumns + 1>()), ...);
}
template <int kRow, int kStep, int... kRows>
constexpr BlockTable MakeTable(std::integer_sequence<int, kRows...>) {
  BlockTable table{};
  (FillRow<kRow, kStep, kRows + 1>(table, std::make_integer_sequence<int, kMaxVectors>()), ...);
  return table;
}
using AllRows = std::make_integer_sequence<int, kMaxRows>;
constexpr BlockTable kRowsAreChannels = MakeTable<kLanes, 1>(AllRows());  // k counts samples: the weight gradient of a dense layer
constexpr BlockTable kRowsAreSamples = MakeTable<1, kLanes>(AllRows());   // k counts channels: a small batch
constexpr BlockTable kAnyRows = MakeTable<0, 0>(AllRows());

}  // namespace

namespace TRAINYARD_ISA {

void Product(const ProductArgs& args) {
  const BlockTable& blocks = args.a_row == kLanes && args.a_k == 1   ? kRowsAreChannels
                             : args.a_row == 1 && args.a_k == kLanes ? kRowsAreSamples
                                                                     : kAnyRows;
  for (int begin = 0; begin < args.columns; begin += kStrip) {
    const int end = MinInt(begin + kStrip, args.columns);
    // Columns of one call: all whole blocks; what is left of the strip has a call of its own.
    const int together = end - begin < kBlockColumns ? end - begin : (end - begin) / kBlockColumns * kBlockColumns;
    // Rows in parts as even as they go, none larger than registers hold.
    const int most = MinInt(kMaxRows, kMaxTile / Vectors(MinInt(kBlockColumns, end - begin)));
    const int parts = (args.rows + most - 1) / most;
    AheadRows ahead[2] = {{args.ahead[0], parts}, {args.ahead[1], parts}};
    int row = 0;
    for (int part = 0; part < parts; ++part) {
      const int rows = part < args.rows % parts ? args.rows / parts + 1 : args.rows / parts;
      for (int column = begin; column < end; column += together) {
        Block block;
        block.columns = MinInt(kBlockColumns, end - column);
        block.passes = MaxInt(1, (end - column) / kBlockColumns);
        block.a = args.a + row * args.a_row;
        block.b = args.b + column;
        block.bias = args.bias == nullptr ? nullptr : args.bias + column;
        block.c = args.c + row * args.c_row + column;
        Lines lines;
        if (args.fetch && column == begin) {
          lines.Add(Sums(args, {row, rows, begin, end - begin}));
          if (begin == 0) {
            for (AheadRows& next : ahead) lines.Add(next.Take());
          }
        }
        lines.Begin();
        block.lines = &lines;
        const int steps = block.passes * args.k;
        block.interval = lines.count() == 0 ? steps + 1 : MaxInt(1, steps / kStepsOfFetch / lines.count());
        blocks.at[rows][Vectors(block.columns)](args, block);
      }
      row += rows;
    }
  }
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
