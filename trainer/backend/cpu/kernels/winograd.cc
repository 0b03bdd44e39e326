// The transforms of Winograd's minimal filtering F(2x2, 3x3) and F(4x4, 3x3), of values in rows:
// channels are lanes (Lavin and Gray 2016, "Fast Algorithms for Convolutional Neural Networks").
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

// Of kTile results along one line of vectors: B^T d and A^T m.
template <int kTile>
struct RowsTransform;

// The points are 0, 1, -1 and infinity.
template <>
struct RowsTransform<2> {
  static void Input(const V* d, V* t) {
    t[0] = d[0] - d[2];
    t[1] = d[1] + d[2];
    t[2] = d[2] - d[1];
    t[3] = d[1] - d[3];
  }
  static void Output(const V* m, V* y) {
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] - m[3];
  }
};

// The points are 0, 1, -1, 1/2, -2 and infinity: the rounding of 2 and -2 would be 1.6 times as
// large (Barabasz et al. 2020, "Error Analysis and Improving the Accuracy of Winograd Convolution
// for Deep Neural Networks").
template <>
struct RowsTransform<4> {
  static void Input(const V* d, V* t) {
    const V odd = d[3] - d[1], even = d[4] - d[2];
    t[0] = d[0] + d[4] - d[2] * 2.0f + odd * 1.5f;
    t[1] = d[4] - d[1] + d[2] * 0.5f + d[3] * 2.5f;
    t[2] = d[4] + d[1] - d[2] * 2.5f + d[3] * 0.5f;
    t[3] = even + odd * 2.0f;
    t[4] = even - odd * 0.5f;
    t[5] = d[1] + d[5] - d[3] * 2.0f + even * 1.5f;
  }
  static void Output(const V* m, V* y) {
    const V sum = m[1] + m[2], difference = m[1] - m[2];
    y[0] = m[0] + sum + m[3] + m[4];
    y[1] = difference + m[3] * 0.5f - m[4] * 2.0f;
    y[2] = sum + m[3] * 0.25f + m[4] * 4.0f;
    y[3] = difference + m[3] * 0.125f - m[4] * 8.0f + m[5];
  }
};

// B^T d B
template <int kTile>
void Input(const WinogradArgs& args) {
  constexpr int kSide = kTile + 2;
  const int64_t step = args.element;
  float* to = args.transformed;
  for (int row = 0; row < args.tiles_h; ++row) {
    for (int column = 0; column < args.tiles_w; ++column) {
      const float* corner = args.x + kTile * (row * args.x_row + int64_t{column} * args.channels);
      for (int c = 0; c < args.channels; c += kLanes, to += kLanes) {
        V t[kSide][kSide];
#pragma GCC unroll 6
        for (int j = 0; j < kSide; ++j) {
          V d[kSide], transformed[kSide];
          for (int i = 0; i < kSide; ++i) d[i] = LoadUnaligned(corner + i * args.x_row + j * args.channels + c);
          RowsTransform<kTile>::Input(d, transformed);
          for (int i = 0; i < kSide; ++i) t[i][j] = transformed[i];
        }
#pragma GCC unroll 6
        for (int i = 0; i < kSide; ++i) {
          V elements[kSide];
          RowsTransform<kTile>::Input(t[i], elements);
          for (int j = 0; j < kSide; ++j) StoreUnaligned(to + (i * kSide + j) * step, elements[j]);
        }
      }
    }
  }
}

// A^T m A, then bias, sum and relu.
template <int kTile>
void Output(const WinogradArgs& args) {
  constexpr int kSide = kTile + 2;
  const int64_t step = args.element;
  const float* from = args.transformed;
  for (int row = 0; row < args.tiles_h; ++row) {
    for (int column = 0; column < args.tiles_w; ++column) {
      const int rows = MinInt(kTile, args.out_h - kTile * row);
      const int columns = MinInt(kTile, args.out_w - kTile * column);
      const int64_t at = kTile * (int64_t{row} * args.out_w + column) * args.channels;
      for (int c = 0; c < args.channels; c += kLanes, from += kLanes) {
        V s[kTile][kSide];
#pragma GCC unroll 6
        for (int j = 0; j < kSide; ++j) {
          V m[kSide], sums[kTile];
          for (int i = 0; i < kSide; ++i) m[i] = LoadUnaligned(from + (i * kSide + j) * step);
          RowsTransform<kTile>::Output(m, sums);
          for (int i = 0; i < kTile; ++i) s[i][j] = sums[i];
        }
        const V bias = Load(args.bias + c);
        for (int i = 0; i < rows; ++i) {
          V y[kTile];
          RowsTransform<kTile>::Output(s[i], y);
          const int64_t offset = at + int64_t{i} * args.out_w * args.channels + c;
          for (int j = 0; j < columns; ++j) {
            V value = y[j] + bias;
            if (args.add != nullptr) value += LoadUnaligned(args.add + offset + j * args.channels);
            if (args.relu) value = Max(V{}, value);
            StoreUnaligned(args.y + offset + j * args.channels, value);
          }
        }
      }
    }
  }
}

}  // namespace

namespace TRAINYARD_ISA {

void WinogradInput(const WinogradArgs& args) { args.tile == 2 ? Input<2>(args) : Input<4>(args); }
void WinogradOutput(const WinogradArgs& args) { args.tile == 2 ? Output<2>(args) : Output<4>(args); }

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
