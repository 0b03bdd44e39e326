// Winograd's F(2x2, 3x3), F(4x4, 3x3) and F(2x2, 5x5) of values in panels: samples are lanes. The
// transforms of lines are in winograd_transforms.h. Of values in rows: winograd.cc.
#include "trainer/backend/cpu/kernels/epilogue.h"
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/vec.h"
#include "trainer/backend/cpu/kernels/winograd_transforms.h"

namespace trainyard::engine {
namespace {

struct TilePlace {
  int row, column;  // of its first result in the image
};
inline TilePlace PlaceOf(const WinogradPanelArgs& args, int tile) {
  const int index = args.tile_begin + tile;
  return {index / args.tiles_w * args.results, index % args.tiles_w * args.results};
}

// B^T d B of one tile, whose pixels beyond the image are zeros.
template <int kResults, int kTaps, bool kInside>
void InputTile(const WinogradPanelArgs& args, TilePlace place, float* to) {
  constexpr int kTile = Winograd<kResults, kTaps>::kTile;
  const int64_t row = args.x_row, column = args.x_column;
  const int first_row = place.row - args.pad_top;
  const int first_column = place.column - args.pad_left;
  const float* corner = args.x + first_row * row + first_column * column;
  const auto inside = [&](int i, int j) {
    return kInside || (first_row + i >= 0 && first_row + i < args.in_h && first_column + j >= 0 && first_column + j < args.in_w);
  };
  for (int64_t c = 0; c < int64_t{args.channels} * kLanes; c += kLanes) {
    V d[kTile][kTile];  // turned
#pragma GCC unroll 6
    for (int j = 0; j < kTile; ++j) {
      V x[kTile];
      for (int i = 0; i < kTile; ++i) x[i] = inside(i, j) ? Load(corner + i * row + j * column + c) : V{};
      V u[kTile];
      Winograd<kResults, kTaps>::Input(x, u);
      for (int i = 0; i < kTile; ++i) d[i][j] = u[i];
    }
#pragma GCC unroll 6
    for (int i = 0; i < kTile; ++i) {
      float* element = to + i * kTile * args.element + c;
      V u[kTile];
      Winograd<kResults, kTaps>::Input(d[i], u);
      for (int j = 0; j < kTile; ++j) Store(element + j * args.element, u[j]);
    }
  }
}

template <int kResults, int kTaps>
void Input(const WinogradPanelArgs& args) {
  constexpr int kTile = Winograd<kResults, kTaps>::kTile;
  for (int tile = 0; tile < args.tiles; ++tile) {
    const TilePlace place = PlaceOf(args, tile);
    const int first_row = place.row - args.pad_top;
    const int first_column = place.column - args.pad_left;
    float* to = args.transformed + int64_t{tile} * args.channels * kLanes;
    if (first_row >= 0 && first_column >= 0 && first_row + kTile <= args.in_h && first_column + kTile <= args.in_w) {
      InputTile<kResults, kTaps, true>(args, place, to);
    } else {
      InputTile<kResults, kTaps, false>(args, place, to);
    }
  }
}

// The results of channel `c` of a tile: A^T m A + bias.
template <int kResults, int kTaps>
inline void OutputTile(const WinogradPanelArgs& args, const float* from, int c, V y[kResults][kResults]) {
  constexpr int kTile = Winograd<kResults, kTaps>::kTile;
  V s[kResults][kTile];
#pragma GCC unroll 6
  for (int j = 0; j < kTile; ++j) {
    V m[kTile];
    for (int i = 0; i < kTile; ++i) m[i] = Load(from + (i * kTile + j) * args.element);
    V column[kResults];
    Winograd<kResults, kTaps>::Output(m, column);
    for (int i = 0; i < kResults; ++i) s[i][j] = column[i];
  }
  const V bias = Splat(args.bias == nullptr ? 0.0f : args.bias[c]);
#pragma GCC unroll 4
  for (int i = 0; i < kResults; ++i) {
    Winograd<kResults, kTaps>::Output(s[i], y[i]);
    for (int j = 0; j < kResults; ++j) y[i][j] += bias;
  }
}

template <int kResults, int kTaps>
void Output(const WinogradPanelArgs& args) {
  for (int tile = 0; tile < args.tiles; ++tile) {
    const TilePlace place = PlaceOf(args, tile);
    const int rows = MinInt(kResults, args.out_h - place.row);
    const int columns = MinInt(kResults, args.out_w - place.column);
    const float* from = args.transformed + int64_t{tile} * args.channels * kLanes;
    const int64_t corner_at = place.row * args.y_row + place.column * args.y_column;
    float* corner = args.y + corner_at;
    for (int c = 0; c < args.channels; ++c, from += kLanes) {
      V y[kResults][kResults];
      OutputTile<kResults, kTaps>(args, from, c, y);
      for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < columns; ++j) {
          const int64_t at = i * args.y_row + j * args.y_column + int64_t{c} * kLanes;
          Store(corner + at, args.add == nullptr ? y[i][j] : y[i][j] + Load(args.add + corner_at + at));
        }
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

// Of each 2 x 2 results.
template <int kResults, int kTaps>
void Pool(const WinogradPanelArgs& args) {
  for (int tile = 0; tile < args.tiles; ++tile) {
    const TilePlace place = PlaceOf(args, tile);
    const int rows = MinInt(kResults, args.out_h - place.row) / 2;
    const int columns = MinInt(kResults, args.out_w - place.column) / 2;
    const float* from = args.transformed + int64_t{tile} * args.channels * kLanes;
    const int64_t corner = place.row / 2 * args.y_row + place.column / 2 * args.y_column;
    for (int c = 0; c < args.channels; ++c, from += kLanes) {
      alignas(64) V y[kResults][kResults];
      OutputTile<kResults, kTaps>(args, from, c, y);
      for (int i = 0; i < rows; ++i) {
        for (int j = 0; j < columns; ++j) {
          const int64_t at = corner + i * args.y_row + j * args.y_column + int64_t{c} * kLanes;
          uint8_t* const argmax = args.argmax == nullptr ? nullptr : args.argmax + at;
          MaxWindow(reinterpret_cast<const float*>(&y[2 * i][2 * j]), kResults * kLanes, kLanes, 2, 2, 0, 2, 1, args.y + at, argmax);
        }
      }
    }
    for (int i = 0; i < rows && args.activation != Activation::kIdentity; ++i) {
      for (int j = 0; j < columns; ++j) {
        float* const pixel = args.y + corner + i * args.y_row + j * args.y_column;
        Activate(pixel, pixel, args.channels, args.activation);
      }
    }
  }
}

// G g G^T
template <int kResults, int kTaps>
void Weights(const WinogradWeightsArgs& args) {
  constexpr int kTile = Winograd<kResults, kTaps>::kTile;
  for (int64_t k = args.begin; k < args.end; k += kLanes) {
    const int here = static_cast<int>(args.end - k < kLanes ? args.end - k : kLanes);
    V u[kTile][kTaps];
    for (int j = 0; j < kTaps; ++j) {
      V g[kTaps];
      for (int i = 0; i < kTaps; ++i) {
        const float* from = args.weights + (i * kTaps + j) * args.count + k;
        g[i] = LoadPart(from, here);
      }
      V column[kTile];
      Winograd<kResults, kTaps>::Weights(g, column);
      for (int i = 0; i < kTile; ++i) u[i][j] = column[i];
    }
    for (int i = 0; i < kTile; ++i) {
      V elements[kTile];
      Winograd<kResults, kTaps>::Weights(u[i], elements);
      for (int j = 0; j < kTile; ++j) {
        float* to = args.transformed + (i * kTile + j) * args.count + k;
        StorePart(to, elements[j], here);
      }
    }
  }
}

}  // namespace

namespace TRAINYARD_ISA {

void WinogradPanelInput(const WinogradPanelArgs& args) {
  VisitWinograd(args, [&]<int kResults, int kTaps>() { Input<kResults, kTaps>(args); });
}
void WinogradPanelOutput(const WinogradPanelArgs& args) {
  VisitWinograd(args, [&]<int kResults, int kTaps>() { Output<kResults, kTaps>(args); });
}
void WinogradPanelPool(const WinogradPanelArgs& args) {
  VisitWinograd(args, [&]<int kResults, int kTaps>() { Pool<kResults, kTaps>(args); });
}
void WinogradPanelWeights(const WinogradWeightsArgs& args) {
  VisitWinograd(args, [&]<int kResults, int kTaps>() { Weights<kResults, kTaps>(args); });
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
