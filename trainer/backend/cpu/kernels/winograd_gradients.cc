// The transforms of gradients by Winograd's F(2x2, 3x3), F(4x4, 3x3) or F(2x2, 5x5): the transposes
// of those of the output, of the input and of the weights (winograd_panels.h).
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/vec.h"
#include "trainer/backend/cpu/kernels/winograd_transforms.h"

namespace trainyard::engine {
namespace {

// A dy A^T
template <int kResults, int kTaps>
void OutputGradient(const WinogradGradientArgs& args) {
  constexpr int kTile = Winograd<kResults, kTaps>::kTile;
  float* to = args.to;
  for (int row = 0; row < args.rows; ++row) {
    const float* from = args.from + row * args.from_row;
    for (int vector = 0; vector < args.vectors; ++vector, from += kLanes, to += kLanes) {
      V t[kTile][kResults];
#pragma GCC unroll 4
      for (int j = 0; j < kResults; ++j) {
        V dy[kResults];
        for (int i = 0; i < kResults; ++i) dy[i] = Load(from + (i * kResults + j) * args.from_pixel);
        V column[kTile];
        Winograd<kResults, kTaps>::OutputGradient(dy, column);
        for (int i = 0; i < kTile; ++i) t[i][j] = column[i];
      }
#pragma GCC unroll 6
      for (int i = 0; i < kTile; ++i) {
        float* element = to + kTile * i * args.element;
        V elements[kTile];
        Winograd<kResults, kTaps>::OutputGradient(t[i], elements);
        for (int j = 0; j < kTile; ++j) Store(element + j * args.element, elements[j]);
      }
    }
  }
}

// The first pixel of a tile in the image, and its first row and column that no tile before it
// reaches.
struct TileEdges {
  int row, column, new_row, new_column;
};

// Adds B m B^T of one tile to its pixels inside the image, or leaves it there. kInner: all pixels
// are inside, and tiles lie above and to the left.
template <int kResults, int kTaps, bool kInner>
void InputGradientTile(const WinogradPanelArgs& args, const TileEdges& edges, const float* from) {
  constexpr int kTile = Winograd<kResults, kTaps>::kTile;
  const int new_row = kInner ? kTile - kResults : edges.new_row;
  const int new_column = kInner ? kTile - kResults : edges.new_column;
  float* corner = static_cast<float*>(args.y) + edges.row * args.y_row + edges.column * args.y_column;
  for (int64_t c = 0; c < int64_t{args.channels} * kLanes; c += kLanes) {
    V t[kTile][kTile];
#pragma GCC unroll 6
    for (int j = 0; j < kTile; ++j) {
      V m[kTile];
      for (int i = 0; i < kTile; ++i) m[i] = Load(from + (i * kTile + j) * args.element + c);
      V column[kTile];
      Winograd<kResults, kTaps>::InputGradient(m, column);
      for (int i = 0; i < kTile; ++i) t[i][j] = column[i];
    }
#pragma GCC unroll 6
    for (int i = 0; i < kTile; ++i) {
      if (!kInner && (edges.row + i < 0 || edges.row + i >= args.out_h)) continue;
      V dx[kTile];
      Winograd<kResults, kTaps>::InputGradient(t[i], dx);
#pragma GCC unroll 6
      for (int j = 0; j < kTile; ++j) {
        if (!kInner && (edges.column + j < 0 || edges.column + j >= args.out_w)) continue;
        float* pixel = corner + i * args.y_row + j * args.y_column + c;
        const bool is_new = i >= new_row && j >= new_column;
        Store(pixel, is_new ? dx[j] : Load(pixel) + dx[j]);
      }
    }
  }
}

template <int kResults, int kTaps>
void PanelInputGradient(const WinogradPanelArgs& args) {
  constexpr int kTile = Winograd<kResults, kTaps>::kTile;
  for (int tile = 0; tile < args.tiles; ++tile) {
    const int tile_row = (args.tile_begin + tile) / args.tiles_w;
    const int tile_column = (args.tile_begin + tile) % args.tiles_w;
    const TileEdges edges = {.row = kResults * tile_row - args.pad_top,
                             .column = kResults * tile_column - args.pad_left,
                             .new_row = tile_row == 0 ? 0 : kTile - kResults,
                             .new_column = tile_column == 0 ? 0 : kTile - kResults};
    const float* from = args.transformed + int64_t{tile} * args.tile_channels * kLanes;
    const bool inner = tile_row > 0 && tile_column > 0 && edges.row >= 0 && edges.column >= 0 && edges.row + kTile <= args.out_h &&
                       edges.column + kTile <= args.out_w;
    inner ? InputGradientTile<kResults, kTaps, true>(args, edges, from) : InputGradientTile<kResults, kTaps, false>(args, edges, from);
  }
}

// G^T p G
template <int kResults, int kTaps>
void WeightGradient(const WinogradWeightGradientArgs& args) {
  constexpr int kTile = Winograd<kResults, kTaps>::kTile;
  for (int k = 0; k < args.columns; k += kLanes) {
    const int here = MinInt(args.columns - k, kLanes);
    V t[kTaps][kTile];
    for (int j = 0; j < kTile; ++j) {
      V p[kTile];
      for (int i = 0; i < kTile; ++i) {
        p[i] = V{};
        for (int part = 0; part < args.parts; ++part) {
          p[i] += Load(args.sums + (int64_t{part} * kTile * kTile + i * kTile + j) * args.sums_element + k);
        }
      }
      V column[kTaps];
      Winograd<kResults, kTaps>::WeightGradient(p, column);
      for (int i = 0; i < kTaps; ++i) t[i][j] = column[i];
    }
    for (int i = 0; i < kTaps; ++i) {
      V dw[kTaps];
      Winograd<kResults, kTaps>::WeightGradient(t[i], dw);
      for (int j = 0; j < kTaps; ++j) {
        float* to = args.dw + (kTaps * i + j) * args.dw_tap + k;
        StorePart(to, dw[j], here);
      }
    }
  }
}

}  // namespace

namespace TRAINYARD_ISA {

void WinogradOutputGradient(const WinogradGradientArgs& args) {
  VisitWinograd(args, [&]<int kResults, int kTaps>() { OutputGradient<kResults, kTaps>(args); });
}
void WinogradPanelInputGradient(const WinogradPanelArgs& args) {
  VisitWinograd(args, [&]<int kResults, int kTaps>() { PanelInputGradient<kResults, kTaps>(args); });
}
void WinogradWeightGradient(const WinogradWeightGradientArgs& args) {
  VisitWinograd(args, [&]<int kResults, int kTaps>() { WeightGradient<kResults, kTaps>(args); });
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
