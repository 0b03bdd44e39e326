// conv_rows: convolutions and dense layers of values in rows. Pixels x vectors of outputs are sums
// in registers; one value of x is spread over all lanes per multiply-add.
#include <utility>

#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

// Half a vector. Where a vector is several registers, a panel of few columns takes half the time.
using Half = float __attribute__((vector_size(32)));
constexpr int kHalfLanes = kLanes / 2;
constexpr int kMostHalfPixels = kVectors >= 32 ? 0 : 2 * RowsPixels(1);

// The vector whose first lanes are those of a sum, and back.
template <typename T>
inline V Widened(T sum) {
  if constexpr (sizeof(T) == sizeof(V)) {
    return sum;
  } else {
    return __builtin_shufflevector(sum, T{}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  }
}
template <typename T>
inline T Narrowed(V v) {
  if constexpr (sizeof(T) == sizeof(V)) {
    return v;
  } else {
    return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
  }
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

constexpr int kFewSteps = 64;  // a tile of fewer is over before a line is there

// Where a vector is one register, a step with one vector has as many loads as multiply-adds
// already.
template <int kColumns>
constexpr bool kFetchesAhead = kVectors < 32 || kColumns > 1;

// The pixels of args from x and y on. T: V, or Half where there are no more columns.
template <typename T, int kPixels, int kColumns>
void RunTile(const ConvRowsArgs& args, const float* x, const float* add, float* y, Ahead ahead) {
  const int tail = args.columns - (kColumns - 1) * kLanes;
  T sum[kPixels][kColumns];
  // Column vector j of pixel p, and how many columns of it there are.
  const auto for_each_sum = [&](auto&& work) __attribute__((always_inline)) {
    ForEach<kPixels>([&]<int p>() __attribute__((always_inline)) {
      ForEach<kColumns>([&]<int j>() __attribute__((always_inline)) {
        work(sum[p][j], p * args.y_pixel + j * kLanes, j, j + 1 < kColumns ? kLanes : tail);
      });
    });
  };
  if (add != nullptr) for_each_sum([&](T&, int64_t at, int, int) { __builtin_prefetch(add + at); });
  // Stores to lines that lie in no cache would hold up the next tile.
  if (args.kernel_rows * args.run >= kFewSteps) for_each_sum([&](T&, int64_t at, int, int) { __builtin_prefetch(y + at, 1); });
  if (args.accumulate) {
    for_each_sum([&](T& s, int64_t at, int, int columns) { s = Narrowed<T>(LoadPart(y + at, columns)); });
  } else {
    for_each_sum([&](T& s, int64_t, int j, int) { s = args.bias == nullptr ? T{} : Narrowed<T>(Load(args.bias + j * kLanes)); });
  }
  const int64_t pixel = args.x_pixel;
  const bool apart = kPixels == 1 && args.weights_panel != 0;
  const int64_t vector = apart ? args.weights_panel : kLanes;
  const int64_t step = apart ? kLanes : kColumns * kLanes;
  for (int r = 0; r < args.kernel_rows; ++r) {
    Bases<kPixels> from(x + r * args.x_kernel_row, pixel);
    const float* w = args.weights + r * args.weights_row;
    const auto multiply = [&]() __attribute__((always_inline)) {
      T weight[kColumns];
      for (int j = 0; j < kColumns; ++j) weight[j] = *reinterpret_cast<const T*>(w + j * vector);
      ForEach<kPixels>([&]<int p>() __attribute__((always_inline)) {
        const T value = from.at[p / 3][p % 3 * pixel] - T{};
        for (int j = 0; j < kColumns; ++j) sum[p][j] += value * weight[j];
      });
      from.Advance(1);
      w += step;
    };
    int k = args.run;
    for (; k >= kStepsOfFetch; k -= kStepsOfFetch) {
      if constexpr (kFetchesAhead<kColumns>) {
        __builtin_prefetch(ahead.at, 0, 2);
        ahead.at += ahead.step;
      }
#pragma clang loop unroll(full)
      for (int i = 0; i < kStepsOfFetch; ++i) multiply();
    }
    for (; k > 0; --k) multiply();
  }
  if (add != nullptr) for_each_sum([&](T& s, int64_t at, int, int columns) { s += Narrowed<T>(LoadPart(add + at, columns)); });
  if (args.relu) for_each_sum([&](T& s, int64_t, int, int) { s = T{} > s ? T{} : s; });
  for_each_sum([&](T& s, int64_t at, int, int columns) { StorePart(y + at, Widened(s), columns); });
}

using TileFunction = void (*)(const ConvRowsArgs&, const float* x, const float* add, float* y, Ahead);
constexpr int kMostPixels = kMostHalfPixels > kMaxRowsPixels ? kMostHalfPixels : kMaxRowsPixels;
// By pixels and by vectors of columns; at 0 of those the tile of half a vector.
struct TileTable {
  TileFunction at[kMostPixels + 1][kMostRowsVectors + 1];
};
template <int kPixels, int kColumns>
constexpr TileFunction TileOrNull() {
  if constexpr (kColumns == 0 && kPixels <= kMostHalfPixels) {
    return RunTile<Half, kPixels, 1>;
  } else if constexpr (kColumns > 0 && (kPixels == 1 || kPixels <= RowsPixels(kColumns))) {
    return RunTile<V, kPixels, kColumns>;
  } else {
    return nullptr;
  }
}
template <int kPixels, int... kColumns>
constexpr void FillRow(TileTable& table, std::integer_sequence<int, kColumns...>) {
  ((table.at[kPixels][kColumns] = TileOrNull<kPixels, kColumns>()), ...);
}
template <int... kPixels>
constexpr TileTable MakeTable(std::integer_sequence<int, kPixels...>) {
  TileTable table{};
  (FillRow<kPixels + 1>(table, std::make_integer_sequence<int, kMostRowsVectors + 1>()), ...);
  return table;
}
constexpr TileTable kTiles = MakeTable(std::make_integer_sequence<int, kMostPixels>());

}  // namespace

namespace TRAINYARD_ISA {

void ConvRows(const ConvRowsArgs& args) {
  const bool half = kMostHalfPixels > 0 && args.columns <= kHalfLanes;
  const int vectors = half ? 0 : (args.columns + kLanes - 1) / kLanes;
  const int most = half ? kMostHalfPixels : MaxInt(1, RowsPixels(vectors));
  const int tiles = args.rows * ((args.pixels + most - 1) / most);
  // Each tile brings its share of them, a line or two at a step: a processor brings lines in pairs.
  const int64_t share = (args.next_floats / kLanes + tiles - 1) / tiles;
  Ahead ahead = {args.next == nullptr ? args.weights : args.next, 0};
  if (args.next != nullptr) ahead.step = share > int64_t{args.kernel_rows} * (args.run / kStepsOfFetch) ? 2 * kLanes : kLanes;
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
