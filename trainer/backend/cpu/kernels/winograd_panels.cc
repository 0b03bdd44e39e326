// The transforms of Winograd's minimal filtering F(2x2, 3x3), of values in panels: samples are
// lanes (Lavin and Gray 2016, "Fast Algorithms for Convolutional Neural Networks"). Of values in
// rows: winograd.cc.
#include "trainer/backend/cpu/kernels/epilogue.h"
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

constexpr int kTile = 4;  // of input; 2 x 2 of output

struct TilePlace {
  int row, column;  // of its first pixel in the image
};
inline TilePlace PlaceOf(const WinogradPanelArgs& args, int tile) {
  const int index = args.tile_begin + tile;
  return {index / args.tiles_w * 2, index % args.tiles_w * 2};
}

// B^T d B of one tile, whose pixels beyond the image are zeros.
template <bool kInside>
void InputTile(const WinogradPanelArgs& args, TilePlace place, float* to) {
  const int64_t row = args.x_row, column = args.x_column;
  const int first_row = place.row - args.pad_top;
  const int first_column = place.column - args.pad_left;
  const float* corner = args.x + first_row * row + first_column * column;
  const auto inside = [&](int i, int j) {
    return kInside || (first_row + i >= 0 && first_row + i < args.in_h && first_column + j >= 0 && first_column + j < args.in_w);
  };
  for (int64_t c = 0; c < int64_t{args.channels} * kLanes; c += kLanes) {
    V d[kTile][kTile];
    for (int j = 0; j < kTile; ++j) {
      V x[kTile];
      for (int i = 0; i < kTile; ++i) x[i] = inside(i, j) ? Load(corner + i * row + j * column + c) : V{};
      d[0][j] = x[0] - x[2];
      d[1][j] = x[1] + x[2];
      d[2][j] = x[2] - x[1];
      d[3][j] = x[1] - x[3];
    }
    for (int i = 0; i < kTile; ++i) {
      float* u = to + i * kTile * args.element + c;
      Store(u, d[i][0] - d[i][2]);
      Store(u + args.element, d[i][1] + d[i][2]);
      Store(u + 2 * args.element, d[i][2] - d[i][1]);
      Store(u + 3 * args.element, d[i][1] - d[i][3]);
    }
  }
}

// The 2 x 2 results of channel `c` of a tile: A^T m A + bias.
inline void OutputTile(const WinogradPanelArgs& args, const float* from, int c, V y[2][2]) {
  V s[2][kTile];
  for (int j = 0; j < kTile; ++j) {
    V m[kTile];
    for (int i = 0; i < kTile; ++i) m[i] = Load(from + (i * kTile + j) * args.element);
    s[0][j] = m[0] + m[1] + m[2];
    s[1][j] = m[1] - m[2] - m[3];
  }
  const V bias = Splat(args.bias == nullptr ? 0.0f : args.bias[c]);
  for (int i = 0; i < 2; ++i) {
    y[i][0] = s[i][0] + s[i][1] + s[i][2] + bias;
    y[i][1] = s[i][1] - s[i][2] - s[i][3] + bias;
  }
}

}  // namespace

namespace TRAINYARD_ISA {

void WinogradPanelInput(const WinogradPanelArgs& args) {
  for (int tile = 0; tile < args.tiles; ++tile) {
    const TilePlace place = PlaceOf(args, tile);
    const int first_row = place.row - args.pad_top;
    const int first_column = place.column - args.pad_left;
    float* to = args.transformed + int64_t{tile} * args.channels * kLanes;
    if (first_row >= 0 && first_column >= 0 && first_row + kTile <= args.in_h && first_column + kTile <= args.in_w) {
      InputTile<true>(args, place, to);
    } else {
      InputTile<false>(args, place, to);
    }
  }
}

void WinogradPanelOutput(const WinogradPanelArgs& args) {
  for (int tile = 0; tile < args.tiles; ++tile) {
    const TilePlace place = PlaceOf(args, tile);
    const int rows = MinInt(2, args.out_h - place.row);
    const int columns = MinInt(2, args.out_w - place.column);
    const float* from = args.transformed + int64_t{tile} * args.channels * kLanes;
    float* corner = args.y + place.row * args.y_row + place.column * args.y_column;
    for (int c = 0; c < args.channels; ++c, from += kLanes) {
      V y[2][2];
      OutputTile(args, from, c, y);
      for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < columns; ++j) Store(corner + i * args.y_row + j * args.y_column + int64_t{c} * kLanes, y[i][j]);
      }
    }
    for (int i = 0; i < rows && args.activation != Activation::kIdentity; ++i) {
      for (int j = 0; j < columns; ++j) {
        float* pixel = corner + i * args.y_row + j * args.y_column;
        Activate(pixel, pixel, args.channels, args.activation);
      }
    }
  }
}

void WinogradPanelPool(const WinogradPanelArgs& args) {
  for (int tile = 0; tile < args.tiles; ++tile) {
    const TilePlace place = PlaceOf(args, tile);
    const float* from = args.transformed + int64_t{tile} * args.channels * kLanes;
    const int64_t at = place.row / 2 * args.y_row + place.column / 2 * args.y_column;
    float* const pixel = args.y + at;
    for (int c = 0; c < args.channels; ++c, from += kLanes) {
      alignas(64) V y[2][2];
      OutputTile(args, from, c, y);
      uint8_t* const argmax = args.argmax == nullptr ? nullptr : args.argmax + at + int64_t{c} * kLanes;
      MaxWindow(reinterpret_cast<const float*>(y), 2 * kLanes, kLanes, 2, 2, 0, 2, 1, pixel + int64_t{c} * kLanes, argmax);
    }
    if (args.activation != Activation::kIdentity) Activate(pixel, pixel, args.channels, args.activation);
  }
}

void WinogradPanelWeights(const float* weights, float* transformed, int64_t count) {
  for (int64_t k = 0; k < count; k += kLanes) {
    const int here = static_cast<int>(count - k < kLanes ? count - k : kLanes);
    V u[kTile][3];
    for (int j = 0; j < 3; ++j) {
      V g[3];
      for (int i = 0; i < 3; ++i) {
        const float* from = weights + (i * 3 + j) * count + k;
        g[i] = here == kLanes ? LoadUnaligned(from) : LoadPart(from, here);
      }
      const V ends = (g[0] + g[2]) * 0.5f;
      u[0][j] = g[0];
      u[1][j] = ends + g[1] * 0.5f;
      u[2][j] = ends - g[1] * 0.5f;
      u[3][j] = g[2];
    }
    for (int i = 0; i < kTile; ++i) {
      const V ends = (u[i][0] + u[i][2]) * 0.5f;
      const V elements[kTile] = {u[i][0], ends + u[i][1] * 0.5f, ends - u[i][1] * 0.5f, u[i][2]};
      for (int j = 0; j < kTile; ++j) {
        float* to = transformed + (i * kTile + j) * count + k;
        if (here == kLanes) {
          StoreUnaligned(to, elements[j]);
        } else {
          StorePart(to, elements[j], here);
        }
      }
    }
  }
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
