// Winograd's F(2x2, 3x3), F(4x4, 3x3) and F(2x2, 5x5) of values in panels of f32 or of bfloat16
// (panels.h): samples are lanes. Transformed values are f32. The transforms of lines are in
// winograd_transforms.h. Of values in rows: winograd.cc.
#pragma once

#include "trainer/backend/cpu/kernels/epilogue.h"
#include "trainer/backend/cpu/kernels/panels.h"
#include "trainer/backend/cpu/kernels/vec.h"
#include "trainer/backend/cpu/kernels/winograd_transforms.h"
#include "trainer/backend/cpu/winograd_args.h"

namespace trainyard::engine {
namespace {

struct TilePlace {
  int row, column;  // of its first result in the image
};
inline TilePlace PlaceOf(const WinogradPanelArgs& args, int tile) {
  const int index = args.tile_begin + tile;
  return {index / args.tiles_w * args.results, index % args.tiles_w * args.results};
}

// Channel `kChannel` of what one Load takes.
template <typename Panels, int kChannel>
inline V LoadChannel(const typename Panels::Element* from) {
  V values[Panels::kChannels];
  Panels::Load(from, values);
  return values[kChannel];
}

// kFrom x kFrom values, which load(row, column) gives, are transformed along their columns, then
// along their rows. The kTile x kTile elements go to take(element, value).
template <int kFrom, int kTile, void (*kAlong)(const V*, V*), typename LoadOne, typename Take>
[[gnu::always_inline]] inline void TransformTile(const LoadOne& load, const Take& take) {
  V turned[kTile][kFrom];
#pragma GCC unroll 6
  for (int j = 0; j < kFrom; ++j) {
    V line[kFrom];
    for (int i = 0; i < kFrom; ++i) line[i] = load(i, j);
    V column[kTile];
    kAlong(line, column);
    for (int i = 0; i < kTile; ++i) turned[i][j] = column[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < kTile; ++i) {
    V elements[kTile];
    kAlong(turned[i], elements);
    for (int j = 0; j < kTile; ++j) take(i * kTile + j, elements[j]);
  }
}

template <typename Panels, int kResults, int kTaps>
struct WinogradTile {
  using Transforms = Winograd<kResults, kTaps>;
  using Element = typename Panels::Element;
  static constexpr int kTile = Transforms::kTile;

  // B^T d B of one tile, whose pixels beyond the image are zeros. The tile behind it is fetched:
  // hardware stops at pages, and a pixel of 64 channels is one.
  template <bool kInside>
  static void Input(const WinogradPanelArgs& args, TilePlace place, float* to) {
    for (int c = 0; c < args.channels; c += Panels::kChannels, to += Panels::kChannels * kLanes) {
      InputChannel<kInside, 0>(args, place, c, to);
      if constexpr (Panels::kChannels == 2) InputChannel<kInside, 1>(args, place, c, to + kLanes);
    }
  }

  // A dy A^T of one tile whose `rows` x `columns` pixels lie inside the image: zeros beyond.
  template <bool kInside>
  static void OutputGradient(const WinogradPanelArgs& args, const Element* corner, int rows, int columns, float* to) {
    for (int c = 0; c < args.channels; c += Panels::kChannels, to += Panels::kChannels * kLanes) {
      OutputGradientChannel<kInside, 0>(args, corner + int64_t{c} * kLanes, rows, columns, to);
      if constexpr (Panels::kChannels == 2)
        OutputGradientChannel<kInside, 1>(args, corner + int64_t{c} * kLanes, rows, columns, to + kLanes);
    }
  }

  // The results of channel `c` of a tile: A^T m A + bias.
  static void Output(const WinogradPanelArgs& args, const float* from, int c, V y[kResults][kResults]) {
    V s[kResults][kTile];
#pragma GCC unroll 6
    for (int j = 0; j < kTile; ++j) {
      V m[kTile];
      for (int i = 0; i < kTile; ++i) m[i] = engine::Load(from + (i * kTile + j) * args.element);
      V column[kResults];
      Transforms::Output(m, column);
      for (int i = 0; i < kResults; ++i) s[i][j] = column[i];
    }
    const V bias = Splat(args.bias == nullptr ? 0.0f : args.bias[c]);
#pragma GCC unroll 4
    for (int i = 0; i < kResults; ++i) {
      Transforms::Output(s[i], y[i]);
      for (int j = 0; j < kResults; ++j) y[i][j] += bias;
    }
  }

 private:
  template <int kFrom, void (*kAlong)(const V*, V*), typename LoadOne>
  [[gnu::always_inline]] static void Transform(const WinogradPanelArgs& args, const LoadOne& load, float* to) {
    TransformTile<kFrom, kTile, kAlong>(
        load, [&](int element, V value) __attribute__((always_inline)) { engine::Store(to + element * args.element, value); });
  }

  template <bool kInside, int kChannel>
  static void InputChannel(const WinogradPanelArgs& args, TilePlace place, int c, float* to) {
    const int first_row = place.row - args.pad_top;
    const int first_column = place.column - args.pad_left;
    const auto* corner = static_cast<const Element*>(args.x) + first_row * args.x_row + first_column * args.x_column + int64_t{c} * kLanes;
    const auto load = [&](int i, int j) __attribute__((always_inline)) {
      const Element* const pixel = corner + i * args.x_row + j * args.x_column;
      if (kChannel == 0 && j >= kTile - kResults) PrefetchRead(pixel + kResults * args.x_column);
      const bool inside =
          kInside || (first_row + i >= 0 && first_row + i < args.in_h && first_column + j >= 0 && first_column + j < args.in_w);
      return inside ? LoadChannel<Panels, kChannel>(pixel) : V{};
    };
    Transform<kTile, Transforms::Input>(args, load, to);
  }

  template <bool kInside, int kChannel>
  static void OutputGradientChannel(const WinogradPanelArgs& args, const Element* corner, int rows, int columns, float* to) {
    const auto load = [&](int i, int j) __attribute__((always_inline)) {
      const Element* const pixel = corner + i * args.x_row + j * args.x_column;
      if (kChannel == 0) PrefetchRead(pixel + kResults * args.x_column);
      return kInside || (i < rows && j < columns) ? LoadChannel<Panels, kChannel>(pixel) : V{};
    };
    Transform<kResults, Transforms::OutputGradient>(args, load, to);
  }
};

template <typename Panels>
class WinogradPanelsOf {
  using Element = typename Panels::Element;
  static constexpr int kChannels = Panels::kChannels;

 public:
  static void Input(const WinogradPanelArgs& args) {
    VisitWinograd(args, [&]<int kResults, int kTaps>() { InputOf<WinogradTile<Panels, kResults, kTaps>>(args); });
  }
  static void Output(const WinogradPanelArgs& args) {
    VisitWinograd(args, [&]<int kResults, int kTaps>() { OutputOf<kResults, kTaps>(args); });
  }
  static void Pool(const WinogradPanelArgs& args) {
    VisitWinograd(args, [&]<int kResults, int kTaps>() { PoolOf<kResults, kTaps>(args); });
  }
  static void OutputGradient(const WinogradPanelArgs& args) {
    VisitWinograd(args, [&]<int kResults, int kTaps>() { OutputGradientOf<kResults, kTaps>(args); });
  }
  static void Weights(const WinogradWeightsArgs& args) {
    VisitWinograd(args, [&]<int kResults, int kTaps>() { WeightsOf<kResults, kTaps>(args); });
  }

  static constexpr WinogradPanelKernels kKernels = {
      .input = Input, .output = Output, .pool = Pool, .output_gradient = OutputGradient, .weights = Weights};

 private:
  template <typename Tile>
  static void InputOf(const WinogradPanelArgs& args) {
    for (int tile = 0; tile < args.tiles; ++tile) {
      const TilePlace place = PlaceOf(args, tile);
      const int row = place.row - args.pad_top;
      const int column = place.column - args.pad_left;
      float* to = args.transformed + int64_t{tile} * args.channels * kLanes;
      const bool inside = row >= 0 && column >= 0 && row + Tile::kTile <= args.in_h && column + Tile::kTile <= args.in_w;
      inside ? Tile::template Input<true>(args, place, to) : Tile::template Input<false>(args, place, to);
    }
  }

  template <int kResults, int kTaps>
  static void OutputOf(const WinogradPanelArgs& args) {
    for (int tile = 0; tile < args.tiles; ++tile) {
      const TilePlace place = PlaceOf(args, tile);
      const int rows = MinInt(kResults, args.out_h - place.row);
      const int columns = MinInt(kResults, args.out_w - place.column);
      const float* from = args.transformed + int64_t{tile} * args.channels * kLanes;
      const int64_t corner = place.row * args.y_row + place.column * args.y_column;
      auto* const y = static_cast<Element*>(args.y);
      for (int c = 0; c < args.channels; c += kChannels, from += kChannels * kLanes) {
        V results[kChannels][kResults][kResults];
#pragma GCC unroll 2
        for (int k = 0; k < kChannels; ++k) WinogradTile<Panels, kResults, kTaps>::Output(args, from + k * kLanes, c + k, results[k]);
        for (int i = 0; i < rows; ++i) {
          for (int j = 0; j < columns; ++j) {
            const int64_t at = corner + i * args.y_row + j * args.y_column + int64_t{c} * kLanes;
            V values[kChannels], added[kChannels] = {};
            if (args.add != nullptr) Panels::Load(static_cast<const Element*>(args.add) + at, added);
            for (int k = 0; k < kChannels; ++k) {
              values[k] = args.add == nullptr ? results[k][i][j] : results[k][i][j] + added[k];
              values[k] = Activated(values[k], args.activation);
            }
            Panels::Store(y + at, values);
          }
        }
      }
    }
  }

  // Of each 2 x 2 results.
  template <int kResults, int kTaps>
  static void PoolOf(const WinogradPanelArgs& args) {
    for (int tile = 0; tile < args.tiles; ++tile) {
      const TilePlace place = PlaceOf(args, tile);
      const int rows = MinInt(kResults, args.out_h - place.row) / 2;
      const int columns = MinInt(kResults, args.out_w - place.column) / 2;
      const float* from = args.transformed + int64_t{tile} * args.channels * kLanes;
      const int64_t corner = place.row / 2 * args.y_row + place.column / 2 * args.y_column;
      auto* const y = static_cast<Element*>(args.y);
      for (int c = 0; c < args.channels; c += kChannels, from += kChannels * kLanes) {
        alignas(64) V results[kChannels][kResults][kResults];
#pragma GCC unroll 2
        for (int k = 0; k < kChannels; ++k) WinogradTile<Panels, kResults, kTaps>::Output(args, from + k * kLanes, c + k, results[k]);
        for (int i = 0; i < rows; ++i) {
          for (int j = 0; j < columns; ++j) {
            const int64_t at = corner + i * args.y_row + j * args.y_column + int64_t{c} * kLanes;
            V best[kChannels];
            for (int k = 0; k < kChannels; ++k) {
              uint8_t* const argmax = args.argmax == nullptr ? nullptr : args.argmax + at + k * kLanes;
              const auto* window = reinterpret_cast<const float*>(&results[k][2 * i][2 * j]);
              MaxWindow(window, kResults * kLanes, kLanes, 2, 2, 0, 2, 1, reinterpret_cast<float*>(&best[k]), argmax);
              best[k] = Activated(best[k], args.activation);
            }
            Panels::Store(y + at, best);
          }
        }
      }
    }
  }

  template <int kResults, int kTaps>
  static void OutputGradientOf(const WinogradPanelArgs& args) {
    for (int tile = 0; tile < args.tiles; ++tile) {
      const TilePlace place = PlaceOf(args, tile);
      const auto* corner = static_cast<const Element*>(args.x) + place.row * args.x_row + place.column * args.x_column;
      const int rows = args.in_h - place.row, columns = args.in_w - place.column;
      const bool inside = rows >= kResults && columns >= kResults;
      float* to = args.transformed + int64_t{tile} * args.channels * kLanes;
      using Tile = WinogradTile<Panels, kResults, kTaps>;
      inside ? Tile::template OutputGradient<true>(args, corner, rows, columns, to)
             : Tile::template OutputGradient<false>(args, corner, rows, columns, to);
    }
  }

  // G g G^T
  template <int kResults, int kTaps>
  static void WeightsOf(const WinogradWeightsArgs& args) {
    using Transforms = Winograd<kResults, kTaps>;
    constexpr int kTile = Transforms::kTile;
    for (int64_t k = args.begin; k < args.end; k += kLanes) {
      const int here = static_cast<int>(args.end - k < kLanes ? args.end - k : kLanes);
      V u[kTile][kTaps];
      for (int j = 0; j < kTaps; ++j) {
        V g[kTaps];
        for (int i = 0; i < kTaps; ++i) {
          const float* from = args.weights + (i * kTaps + j) * args.count + k;
          g[i] = Panels::Rounded(LoadPart(from, here));
        }
        V column[kTile];
        Transforms::Weights(g, column);
        for (int i = 0; i < kTile; ++i) u[i][j] = column[i];
      }
      for (int i = 0; i < kTile; ++i) {
        V elements[kTile];
        Transforms::Weights(u[i], elements);
        for (int j = 0; j < kTile; ++j) {
          float* to = args.transformed + (i * kTile + j) * args.count + k;
          StorePart(to, elements[j], here);
        }
      }
    }
  }
};

}  // namespace
}  // namespace trainyard::engine
