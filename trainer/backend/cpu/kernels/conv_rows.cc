// conv_rows: convolutions and dense layers of values in rows. Pixels x vectors of outputs are sums
// in registers; one value of x is spread over all lanes per multiply-add.
#include <utility>

#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

// The end of a row beyond whole vectors: one masked vector where the instruction set has masks,
// never a call of memcpy.
__attribute__((no_builtin("memcpy"))) inline void CopyTail(const float* __restrict from, float* __restrict to, int columns) {
#pragma clang loop vectorize_width(16) vectorize_predicate(enable) interleave(disable)
  for (int i = 0; i < columns; ++i) to[i] = from[i];
}
inline V LoadTail(const float* from, int columns) {
  if (columns == kLanes) return LoadUnaligned(from);
  alignas(64) float tail[kLanes];
  Store(tail, V{});
  CopyTail(from, tail, columns);
  return Load(tail);
}
inline void StoreTail(float* to, V value, int columns) {
  if (columns == kLanes) return StoreUnaligned(to, value);
  alignas(64) float tail[kLanes];
  Store(tail, value);
  CopyTail(tail, to, columns);
}

// Three pixels to a base: a processor's addresses reach one and two strides beyond it.
template <int kPixels>
struct Bases {
  static constexpr int kCount = (kPixels + 2) / 3;
  const float* at[kCount];
  Bases(const float* x, int64_t pixel) {
    for (int i = 0; i < kCount; ++i) at[i] = x + 3 * i * pixel;
  }
  void Advance(int64_t floats) {
    for (int i = 0; i < kCount; ++i) at[i] += floats;
  }
};

// Calls work<0>(), work<1>() …: what is written out for each keeps the sums in registers, a loop
// might leave them in memory.
template <int kCount, typename Work>
inline __attribute__((always_inline)) void ForEach(Work&& work) {
  [&]<int... kIndex>(std::integer_sequence<int, kIndex...>)
      __attribute__((always_inline)) { (work.template operator()<kIndex>(), ...); }(std::make_integer_sequence<int, kCount>());
}

// What the next call reads, brought nearer one line at a step of the innermost loop.
struct Ahead {
  const float* at;
  int64_t step;
};

// The pixels of args from x and y on.
template <int kPixels, int kColumns>
void RunTile(const ConvRowsArgs& args, const float* x, const float* add, float* y, Ahead ahead) {
  const int tail = args.columns - (kColumns - 1) * kLanes;
  V sum[kPixels][kColumns];
  // Column vector j of pixel p, and how many columns of it there are.
  const auto for_each_sum = [&](auto&& work) __attribute__((always_inline)) {
    ForEach<kPixels>([&]<int p>() __attribute__((always_inline)) {
      ForEach<kColumns>([&]<int j>() __attribute__((always_inline)) {
        work(sum[p][j], p * args.y_pixel + j * kLanes, j, j + 1 < kColumns ? kLanes : tail);
      });
    });
  };
  if (add != nullptr) for_each_sum([&](V&, int64_t at, int, int) { __builtin_prefetch(add + at); });
  if (args.accumulate) {
    for_each_sum([&](V& s, int64_t at, int, int columns) { s = LoadTail(y + at, columns); });
  } else {
    for_each_sum([&](V& s, int64_t, int j, int) { s = args.bias == nullptr ? V{} : Load(args.bias + j * kLanes); });
  }
  const int64_t pixel = args.x_pixel;
  for (int r = 0; r < args.kernel_rows; ++r) {
    Bases<kPixels> from(x + r * args.x_kernel_row, pixel);
    const float* w = args.weights + r * args.weights_row;
    for (int k = args.run; k > 0; --k) {
      if constexpr (kColumns > 1) {  // one vector has as many loads as multiply-adds already
        __builtin_prefetch(ahead.at, 0, 2);
        ahead.at += ahead.step;
      }
      V weight[kColumns];
      for (int j = 0; j < kColumns; ++j) weight[j] = Load(w + j * kLanes);
      ForEach<kPixels>([&]<int p>() __attribute__((always_inline)) {
        const V value = Splat(from.at[p / 3][p % 3 * pixel]);
        for (int j = 0; j < kColumns; ++j) sum[p][j] += value * weight[j];
      });
      from.Advance(1);
      w += kColumns * kLanes;
    }
  }
  if (add != nullptr) for_each_sum([&](V& s, int64_t at, int, int columns) { s += LoadTail(add + at, columns); });
  if (args.relu) for_each_sum([&](V& s, int64_t, int, int) { s = Max(V{}, s); });
  for_each_sum([&](V& s, int64_t at, int, int columns) { StoreTail(y + at, s, columns); });
}

using TileFunction = void (*)(const ConvRowsArgs&, const float* x, const float* add, float* y, Ahead);
struct TileTable {
  TileFunction at[kMaxRowsPixels + 1][kMaxRowsVectors + 1];
};
template <int kPixels, int kColumns>
constexpr TileFunction TileOrNull() {
  if constexpr (kPixels <= RowsPixels(kColumns)) {
    return RunTile<kPixels, kColumns>;
  } else {
    return nullptr;
  }
}
template <int kPixels, int... kColumns>
constexpr void FillRow(TileTable& table, std::integer_sequence<int, kColumns...>) {
  ((table.at[kPixels][kColumns + 1] = TileOrNull<kPixels, kColumns + 1>()), ...);
}
template <int... kPixels>
constexpr TileTable MakeTable(std::integer_sequence<int, kPixels...>) {
  TileTable table{};
  (FillRow<kPixels + 1>(table, std::make_integer_sequence<int, kMaxRowsVectors>()), ...);
  return table;
}
constexpr TileTable kTiles = MakeTable(std::make_integer_sequence<int, kMaxRowsPixels>());

}  // namespace

namespace TRAINYARD_ISA {

void ConvRows(const ConvRowsArgs& args) {
  const int vectors = (args.columns + kLanes - 1) / kLanes;
  const int most = RowsPixels(vectors);
  const int tiles = args.rows * ((args.pixels + most - 1) / most);
  // Each tile brings its share of them, a line or two at a step: a processor brings lines in pairs.
  const int64_t share = (args.next_floats / kLanes + tiles - 1) / tiles;
  Ahead ahead = {args.next == nullptr ? args.weights : args.next, 0};
  if (args.next != nullptr) ahead.step = share > int64_t{args.kernel_rows} * args.run ? 2 * kLanes : kLanes;
  for (int row = 0; row < args.rows; ++row) {
    int pixel = 0;
    // Pixels in parts as even as they go, none larger than registers hold.
    for (int parts = (args.pixels + most - 1) / most; parts > 0; --parts) {
      const int pixels = (args.pixels - pixel + parts - 1) / parts;
      const int64_t to = row * args.y_row + pixel * args.y_pixel;
      kTiles.at[pixels][vectors](args, args.x + row * args.x_row + pixel * args.x_pixel, args.add == nullptr ? nullptr : args.add + to,
                                 args.y + to, ahead);
      if (args.next != nullptr) ahead.at += share * kLanes;
      pixel += pixels;
    }
  }
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
