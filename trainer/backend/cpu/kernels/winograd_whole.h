// Winograd's products of pairs of bfloat16 in whole numbers, by processors that add two products of
// int16 to each lane of int32 in one instruction. Transformed values and weights are multiples of a
// unit. That of values is a lane's, for all tiles of a call. That of weights is an output's and an
// element's. So a sum is exact, and no value is off by more than half a unit.
//
// A sum has 31 bits. Values and weights share them so that both add about as much to its error, of
// values whose largest transformed one is 10 times as large as most. Weights have as many as keep
// the sum of each output below 2^31 whatever the values are.
#pragma once

#include <math.h>

#include "trainer/backend/cpu/kernels/bf16_blocks.h"
#include "trainer/backend/cpu/kernels/winograd_panels.h"

namespace trainyard::engine {
namespace {

constexpr float kMostWholeSum = 2147483647.0f;

// Of a value, where so many are added. 146500^2 is 10 times 2^31.
inline float MostWhole(int channels) { return fminf(32767.0f, 146500.0f / sqrtf(static_cast<float>(channels))); }

constexpr float kLeastUnit = 1e-30f;  // of what is measured: smaller numbers are rounded to zero

// Adds the products of two int16 to each lane of int32.
struct WholeDot {
  static V Add(V sum, uint32_t left, VU right) {
    const VU splat = VU{} + left;
    return reinterpret_cast<V>(
        _mm512_dpwssd_epi32(reinterpret_cast<__m512i>(sum), reinterpret_cast<__m512i>(splat), reinterpret_cast<__m512i>(right)));
  }
};

// A block's sums in f32.
struct LeaveWhole {
  static constexpr int kRowStep = 1;
  template <int kRows, int kGroups>
  __attribute__((always_inline)) static void Leave(const Bf16ProductArgs& args, Bf16Place at, const V (&sum)[kRows][kGroups]) {
    const V unit = Load(args.lane_units);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const V scale = unit * Splat(args.row_units[at.row + r]);
#pragma GCC unroll 4
      for (int j = 0; j < kGroups; ++j) {
        const V wide = __builtin_convertvector(AsInt(sum[r][j]), V);
        engine::Store(args.c + (at.row + r) * args.c_row + (at.group + j) * args.c_group, wide * scale);
      }
    }
  }
};

// To what a transform of lines makes each of its results grow at most.
template <int kFrom, int kTo, void (*kAlong)(const V*, V*)>
inline void GrowthOf(float* growth) {
  for (int i = 0; i < kTo; ++i) growth[i] = 0;
  for (int k = 0; k < kFrom; ++k) {
    V line[kFrom] = {};
    line[k] = Splat(1.0f);
    V results[kTo];
    kAlong(line, results);
    for (int i = 0; i < kTo; ++i) growth[i] += fabsf(results[i][0]);
  }
}

// The largest magnitude in each lane of `vectors` vectors of pairs, as f32. A NaN is larger than
// all numbers.
inline V LargestOf(const uint16_t* from, int64_t vectors) {
  VU largest = {};
  for (int64_t i = 0; i < vectors; ++i) {
    VU pairs;
    __builtin_memcpy(&pairs, from + i * kGroupPair, sizeof pairs);
    const VU low = (pairs << 16) & 0x7fffffffu;
    const VU high = pairs & 0x7fff0000u;
    const VU larger = low > high ? low : high;
    largest = larger > largest ? larger : largest;
  }
  return reinterpret_cast<V>(largest);
}

// To the nearest whole numbers; one in the lower half of each lane, one in the upper.
inline VI ToWhole(V v) { return reinterpret_cast<VI>(_mm512_cvtps_epi32(reinterpret_cast<__m512>(v))); }
inline VI PairsOf(V low, V high) { return (ToWhole(low) & SplatInt(0xffff)) | (ToWhole(high) << 16); }

template <typename Panels, int kResults, int kTaps>
class WholeTiles {
  using Transforms = Winograd<kResults, kTaps>;
  static constexpr int kTile = Transforms::kTile;
  static constexpr int kElements = kTile * kTile;

 public:
  static void Input(const WinogradPanelArgs& args, float* units) {
    Run<kTile, Transforms::Input>(args, units, args.pad_top, args.pad_left);
  }
  static void OutputGradient(const WinogradPanelArgs& args, float* units) { Run<kResults, Transforms::OutputGradient>(args, units, 0, 0); }

  // Of the transform that the weights meet.
  static void Growth(bool of_gradient, float* growth) {
    of_gradient ? GrowthOf<kResults, kTile, Transforms::OutputGradient>(growth) : GrowthOf<kTile, kTile, Transforms::Input>(growth);
  }

 private:
  template <int kFrom, void (*kAlong)(const V*, V*)>
  static void Run(const WinogradPanelArgs& args, float* units, int pad_top, int pad_left) {
    alignas(64) V factors[kElements];
    MakeFactors<kFrom, kAlong>(args, pad_top, units, factors);
    for (int tile = 0; tile < args.tiles; ++tile) {
      TilePlace place = PlaceOf(args, tile);
      place.row -= pad_top;
      place.column -= pad_left;
      float* to = args.transformed + int64_t{tile} * (args.channels / 2) * kLanes;
      const bool inside = place.row >= 0 && place.column >= 0 && place.row + kFrom <= args.in_h && place.column + kFrom <= args.in_w;
      inside ? Tile<true, kFrom, kAlong>(args, place, factors, to) : Tile<false, kFrom, kAlong>(args, place, factors, to);
    }
  }

  // The unit of each lane, from the rows that the tiles read, and what elements are multiplied by.
  template <int kFrom, void (*kAlong)(const V*, V*)>
  static void MakeFactors(const WinogradPanelArgs& args, int pad_top, float* units, V* factors) {
    const int begin = MaxInt(0, PlaceOf(args, 0).row - pad_top);
    const int end = MinInt(args.in_h, PlaceOf(args, args.tiles - 1).row - pad_top + kFrom);
    const auto* const x = static_cast<const uint16_t*>(args.x);
    const V largest = LargestOf(x + begin * args.x_row, MaxInt(0, end - begin) * args.x_row / kGroupPair);
    const VI finite = AsInt(largest) < SplatInt(0x7f800000);
    const V measured = Max(Splat(kLeastUnit), largest);
    const float most = MostWhole(args.channels);
    const V per_unit = Select(finite, Splat(most) / measured, V{});
    engine::Store(units, Select(finite, measured * Splat(1.0f / most), Splat(__builtin_nanf(""))));
    float growth[kTile];
    GrowthOf<kFrom, kTile, kAlong>(growth);
    for (int i = 0; i < kTile; ++i) {
      for (int j = 0; j < kTile; ++j) factors[i * kTile + j] = per_unit * Splat(1.0f / (growth[i] * growth[j]));
    }
  }

  template <bool kInside, int kFrom, void (*kAlong)(const V*, V*)>
  static void Tile(const WinogradPanelArgs& args, TilePlace place, const V* factors, float* to) {
    const auto* corner = static_cast<const uint16_t*>(args.x) + place.row * args.x_row + place.column * args.x_column;
    for (int c = 0; c < args.channels; c += 2, corner += kGroupPair, to += kLanes) {
      const auto load = [&]<int kChannel>(int i, int j) __attribute__((always_inline)) {
        const uint16_t* const pixel = corner + i * args.x_row + j * args.x_column;
        if (kChannel == 0 && j >= kFrom - kResults) PrefetchRead(pixel + kResults * args.x_column);
        const bool inside =
            kInside || (place.row + i >= 0 && place.row + i < args.in_h && place.column + j >= 0 && place.column + j < args.in_w);
        return inside ? LoadChannel<Panels, kChannel>(pixel) : V{};
      };
      const auto low = [&](int i, int j) __attribute__((always_inline)) { return load.template operator()<0>(i, j); };
      const auto high = [&](int i, int j) __attribute__((always_inline)) { return load.template operator()<1>(i, j); };
      alignas(64) V first[kElements];
      TransformTile<kFrom, kTile, kAlong>(
          low, [&](int element, V value) __attribute__((always_inline)) { first[element] = value * factors[element]; });
      TransformTile<kFrom, kTile, kAlong>(high, [&](int element, V value) __attribute__((always_inline)) {
        engine::Store(to + element * args.element, AsFloat(PairsOf(first[element], value * factors[element])));
      });
    }
  }
};

// What `channels` weights of outputs are multiplied by, from their largest magnitude and the sum of
// magnitudes: as much as the sum of products allows. 0 where one is not finite.
inline V PerUnit(V largest, V sum, int channels) {
  // Each weight is rounded up by 1/2 at most, each value by less.
  const float most = kMostWholeSum / (MostWhole(channels) + 1) - static_cast<float>(channels);
  const V per_unit = Min(Splat(32767.0f) / Max(Splat(kLeastUnit), largest), Splat(most) / Max(Splat(kLeastUnit), sum));
  return Select(sum < Splat(INFINITY), per_unit, V{});
}
inline V UnitOf(V per_unit, float growth) { return Select(per_unit > V{}, Splat(growth) / per_unit, Splat(__builtin_nanf(""))); }
inline V Magnitude(V v) { return AsFloat(AsInt(v) & SplatInt(0x7fffffff)); }

// Rows of `channels` (even) weights of 16 outputs, of which `here` are stored. Weights of a channel
// lie side by side, those of the next one `out` behind them.
inline void WholeRowsOfOutputs(const float* from, int out, int here, int channels, float growth, uint16_t* to, float* units) {
  V largest = {}, sum = {};
  for (int c = 0; c < channels; ++c) {
    const V magnitude = Magnitude(LoadPart(from + int64_t{c} * out, here));
    largest = Max(largest, magnitude);
    sum += magnitude;
  }
  const V per_unit = PerUnit(largest, sum, channels);
  StorePart(units, UnitOf(per_unit, growth), here);
  for (int c = 0; c < channels; c += 2) {
    const VI pairs = PairsOf(LoadPart(from + int64_t{c} * out, here) * per_unit, LoadPart(from + int64_t{c + 1} * out, here) * per_unit);
    for (int o = 0; o < here; ++o) {
      const int32_t pair = pairs[o];
      __builtin_memcpy(to + int64_t{o} * channels + c, &pair, sizeof pair);
    }
  }
}

// The row of one output, whose channels lie side by side.
inline void WholeRowOfChannels(const float* from, int channels, float growth, uint16_t* to, float* unit) {
  V largest = {}, sum = {};
  for (int c = 0; c < channels; c += kLanes) {
    const V magnitude = Magnitude(LoadPart(from + c, channels - c));
    largest = Max(largest, magnitude);
    sum += magnitude;
  }
  const float all = _mm512_reduce_add_ps(reinterpret_cast<__m512>(sum));
  const V per_unit = PerUnit(Splat(_mm512_reduce_max_ps(reinterpret_cast<__m512>(largest))), Splat(all), channels);
  *unit = UnitOf(per_unit, growth)[0];
  for (int c = 0; c < channels; c += kLanes) {
    const VI whole = ToWhole(LoadPart(from + c, channels - c) * per_unit);
    const __mmask16 lanes = channels - c >= kLanes ? static_cast<__mmask16>(0xffff) : FirstLanes(channels - c);
    _mm512_mask_cvtepi32_storeu_epi16(to + c, lanes, reinterpret_cast<__m512i>(whole));
  }
}

template <typename Panels>
class WinogradWholeOf {
 public:
  static void Input(const WinogradPanelArgs& args, float* units) {
    VisitWinograd(args, [&]<int kResults, int kTaps>() { WholeTiles<Panels, kResults, kTaps>::Input(args, units); });
  }
  static void OutputGradient(const WinogradPanelArgs& args, float* units) {
    VisitWinograd(args, [&]<int kResults, int kTaps>() { WholeTiles<Panels, kResults, kTaps>::OutputGradient(args, units); });
  }
  static void Weights(const WinogradWholeWeightsArgs& args) {
    float growth[6];
    VisitWinograd(args, [&]<int kResults, int kTaps>() { WholeTiles<Panels, kResults, kTaps>::Growth(args.transposed, growth); });
    const int tile = args.results + args.taps - 1;
    const float grown = growth[args.element / tile] * growth[args.element % tile];
    const int outputs = args.transposed ? args.in : args.out;
    const int channels = args.transposed ? args.out : args.in;
    for (int o = 0; o < outputs; o += args.transposed ? 1 : kLanes) {
      uint16_t* const to = args.to + int64_t{o} * channels;
      if (args.transposed) {
        WholeRowOfChannels(args.transformed + int64_t{o} * args.out, channels, grown, to, args.units + o);
      } else {
        WholeRowsOfOutputs(args.transformed + o, args.out, MinInt(kLanes, outputs - o), channels, grown, to, args.units + o);
      }
    }
  }

  static constexpr WinogradWholeKernels kKernels = {
      .input = Input, .output_gradient = OutputGradient, .weights = Weights, .product = RunProduct<WholeDot, LeaveWhole>};
};

}  // namespace
}  // namespace trainyard::engine
