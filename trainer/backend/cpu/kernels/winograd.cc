// The transforms of Winograd's minimal filtering F(2x2, 3x3), of values in rows: channels are lanes
// (Lavin and Gray 2016, "Fast Algorithms for Convolutional Neural Networks").
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

constexpr int kTile = 4;  // of input; 2 x 2 of output

}  // namespace

namespace TRAINYARD_ISA {

// B^T d B
void WinogradInput(const WinogradArgs& args) {
  const int64_t step = args.element;
  float* to = args.transformed;
  for (int row = 0; row < args.tiles_h; ++row) {
    for (int column = 0; column < args.tiles_w; ++column) {
      const float* corner = args.x + 2 * (row * args.x_row + int64_t{column} * args.channels);
      for (int c = 0; c < args.channels; c += kLanes, to += kLanes) {
        V d[kTile][kTile];
        for (int j = 0; j < kTile; ++j) {
          V x[kTile];
          for (int i = 0; i < kTile; ++i) x[i] = LoadUnaligned(corner + i * args.x_row + j * args.channels + c);
          d[0][j] = x[0] - x[2];
          d[1][j] = x[1] + x[2];
          d[2][j] = x[2] - x[1];
          d[3][j] = x[1] - x[3];
        }
        for (int i = 0; i < kTile; ++i) {
          float* u = to + i * kTile * step;
          StoreUnaligned(u, d[i][0] - d[i][2]);
          StoreUnaligned(u + step, d[i][1] + d[i][2]);
          StoreUnaligned(u + 2 * step, d[i][2] - d[i][1]);
          StoreUnaligned(u + 3 * step, d[i][1] - d[i][3]);
        }
      }
    }
  }
}

// A^T m A, then bias, sum and relu.
void WinogradOutput(const WinogradArgs& args) {
  const int64_t step = args.element;
  const float* from = args.transformed;
  for (int row = 0; row < args.tiles_h; ++row) {
    for (int column = 0; column < args.tiles_w; ++column) {
      const int rows = MinInt(2, args.out_h - 2 * row);
      const int columns = MinInt(2, args.out_w - 2 * column);
      const int64_t at = (2 * int64_t{row} * args.out_w + 2 * column) * args.channels;
      for (int c = 0; c < args.channels; c += kLanes, from += kLanes) {
        V s[2][kTile];
        for (int j = 0; j < kTile; ++j) {
          V m[kTile];
          for (int i = 0; i < kTile; ++i) m[i] = LoadUnaligned(from + (i * kTile + j) * step);
          s[0][j] = m[0] + m[1] + m[2];
          s[1][j] = m[1] - m[2] - m[3];
        }
        const V bias = Load(args.bias + c);
        for (int i = 0; i < rows; ++i) {
          V y[2] = {s[i][0] + s[i][1] + s[i][2] + bias, s[i][1] - s[i][2] - s[i][3] + bias};
          const int64_t offset = at + int64_t{i} * args.out_w * args.channels + c;
          for (int j = 0; j < columns; ++j) {
            if (args.add != nullptr) y[j] += LoadUnaligned(args.add + offset + j * args.channels);
            if (args.relu) y[j] = Max(V{}, y[j]);
            StoreUnaligned(args.y + offset + j * args.channels, y[j]);
          }
        }
      }
    }
  }
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
