// product: outputs are lanes. Rows x vectors of accumulators, one value of `a` spread over all lanes per multiply-add.
#include <utility>

#include "trainer/backend/cpu/kernels.h"
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

constexpr int kMaxRows = kVectors >= 32 ? 6 : kVectors >= 8 ? 3 : 2;
constexpr int kMaxVectors = kVectors >= 32 ? 4 : kVectors >= 8 ? 2 : 1;

struct Block {
  const float* a;
  const float* b;
  const float* bias;
  float* c;
  int columns;  // of this block, the last vector perhaps in part
};

// kRow and kStep are a's strides where they are known (0: take them from the arguments).
template <int kRows, int kColumns, int kRow, int kStep>
void RunBlock(const ProductArgs& args, const Block& block) {
  V sum[kRows][kColumns];
  for (int j = 0; j < kColumns; ++j) {
    V start = {};
    if (block.bias != nullptr) {
      alignas(64) float bias[kLanes] = {};
      for (int l = 0; l < MinInt(kLanes, block.columns - j * kLanes); ++l) bias[l] = block.bias[j * kLanes + l];
      start = Load(bias);
    }
    for (int r = 0; r < kRows; ++r) sum[r][j] = start;
  }
  const int64_t a_row = kRow != 0 ? kRow : args.a_row;
  const int64_t a_k = kStep != 0 ? kStep : args.a_k;
  // The last row of b is read from a copy: a whole vector there could reach beyond b's end.
  alignas(64) float last[kColumns * kLanes] = {};
  for (int i = 0; i < block.columns; ++i) last[i] = block.b[(args.k - 1) * args.b_stride + i];
  const auto add = [&](const float* a, const float* b) {
    V vector[kColumns];
    for (int j = 0; j < kColumns; ++j) vector[j] = LoadUnaligned(b + j * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const V value = Splat(a[r * a_row]);
      for (int j = 0; j < kColumns; ++j) sum[r][j] += vector[j] * value;
    }
  };
  const float* b = block.b;
  for (int k16 = 0; k16 < args.k - 1; k16 += kLanes) {
    const float* a = block.a + k16 / kLanes * args.a_k16;
    const int64_t end = MinInt(kLanes, args.k - 1 - k16) * a_k;
    for (int64_t k = 0; k != end; k += a_k) {
      add(a + k, b);
      b += args.b_stride;
    }
  }
  add(block.a + (args.k - 1) / kLanes * args.a_k16 + (args.k - 1) % kLanes * a_k, last);
  for (int r = 0; r < kRows; ++r) {
    float* c = block.c + r * args.c_row;
    for (int j = 0; j < kColumns; ++j) {
      const int lanes = block.columns - j * kLanes;
      if (lanes >= kLanes) {
        StoreUnaligned(c + j * kLanes, sum[r][j]);
      } else {
        alignas(64) float part[kLanes];
        Store(part, sum[r][j]);
        for (int l = 0; l < lanes; ++l) c[j * kLanes + l] = part[l];
      }
    }
  }
}

using BlockFunction = void (*)(const ProductArgs&, const Block&);
struct BlockTable {
  BlockFunction at[kMaxRows + 1][kMaxVectors + 1];
};
template <int kRow, int kStep, int kRows, int... kColumns>
constexpr void FillRow(BlockTable& table, std::integer_sequence<int, kColumns...>) {
  ((table.at[kRows][kColumns + 1] = RunBlock<kRows, kColumns + 1, kRow, kStep>), ...);
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
  for (int column = 0; column < args.columns; column += kMaxVectors * kLanes) {
    Block block;
    block.columns = MinInt(kMaxVectors * kLanes, args.columns - column);
    block.b = args.b + column;
    block.bias = args.bias == nullptr ? nullptr : args.bias + column;
    const int vectors = (block.columns + kLanes - 1) / kLanes;
    for (int row = 0; row < args.rows; row += kMaxRows) {
      block.a = args.a + row * args.a_row;
      block.c = args.c + row * args.c_row + column;
      blocks.at[MinInt(kMaxRows, args.rows - row)][vectors](args, block);
    }
  }
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
