// Winograd's F(2x2, 3x3) and F(4x4, 3x3) of values in rows: channels are lanes. The transforms of
// lines are in winograd_transforms.h. Of values in panels: winograd_panels.h.
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/vec.h"
#include "trainer/backend/cpu/kernels/winograd_transforms.h"

namespace trainyard::engine {
namespace {

// B^T d B
template <int kTile>
void Input(const WinogradArgs& args) {
  constexpr int kSide = Winograd<kTile, 3>::kTile;
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
          Winograd<kTile, 3>::Input(d, transformed);
          for (int i = 0; i < kSide; ++i) t[i][j] = transformed[i];
        }
#pragma GCC unroll 6
        for (int i = 0; i < kSide; ++i) {
          V elements[kSide];
          Winograd<kTile, 3>::Input(t[i], elements);
          for (int j = 0; j < kSide; ++j) StoreUnaligned(to + (i * kSide + j) * step, elements[j]);
        }
      }
    }
  }
}

// A^T m A, then bias, sum and relu.
template <int kTile>
void Output(const WinogradArgs& args) {
  constexpr int kSide = Winograd<kTile, 3>::kTile;
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
          Winograd<kTile, 3>::Output(m, sums);
          for (int i = 0; i < kTile; ++i) s[i][j] = sums[i];
        }
        const V bias = Load(args.bias + c);
        for (int i = 0; i < rows; ++i) {
          V y[kTile];
          Winograd<kTile, 3>::Output(s[i], y);
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
