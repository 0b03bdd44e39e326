// Batch normalisation. Everything here is bound by memory, so x is read in one stream: pixels in
// order, four at a time. The sums of all channels wait in the first-level cache.
#include "trainer/backend/cpu/kernels/activations.h"
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

// Pixels that share one load and store of the sums.
constexpr int kTogether = 4;

inline VI LanesBelow(int lanes) {
  const VI lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return lane < SplatInt(lanes);
}
inline V And(VI mask, V v) { return AsFloat(mask & AsInt(v)); }
inline V Affine(V x, float scale, float shift) { return x * Splat(scale) + Splat(shift); }

// The terms of one vector of channel c. The sums are those of first and of first * factor.
struct Terms {
  V first, factor;
};

template <bool kMasked>
struct MomentTerms {
  const BatchNormArgs& args;
  VI mask;
  Terms At(int64_t offset, int c) const {
    V distance = Load(args.x + offset) - args.pivot[c];
    if constexpr (kMasked) distance = And(mask, distance);
    return {distance, distance};
  }
};

template <bool kRelu>
inline V GradientOfZ(const BatchNormArgs& args, V x, V dy, int c) {
  if constexpr (kRelu) return ActivationKernel<Activation::kRelu>::Gradient(dy, Affine(x, args.scale[c], args.shift[c]));
  return dy;
}

// dy is zero in lanes without a sample, so these need no mask.
template <bool kRelu>
struct GradientTerms {
  const BatchNormArgs& args;
  Terms At(int64_t offset, int c) const {
    const V x = Load(args.x + offset);
    return {GradientOfZ<kRelu>(args, x, Load(args.dy + offset), c), x - args.pivot[c]};
  }
};

template <int kPixels, typename Source>
inline void AddPixels(const Source& source, int channels, int64_t pixel, float* sums) {
  const int64_t row = int64_t{channels} * kLanes;
  for (int c = 0; c < channels; ++c) {
    V first = Load(sums + c * kLanes);
    V second = Load(sums + row + c * kLanes);
    for (int p = 0; p < kPixels; ++p) {
      const Terms terms = source.At((pixel + p) * row + c * kLanes, c);
      first += terms.first;
      second += terms.first * terms.factor;
    }
    Store(sums + c * kLanes, first);
    Store(sums + row + c * kLanes, second);
  }
}

template <typename Source>
void Sum(const BatchNormArgs& args, const Source& source) {
  float* const sums = args.scratch;
  for (int64_t i = 0; i < int64_t{2} * args.channels; ++i) Store(sums + i * kLanes, V{});
  int64_t pixel = 0;
  for (; pixel + kTogether <= args.pixels; pixel += kTogether) AddPixels<kTogether>(source, args.channels, pixel, sums);
  for (; pixel < args.pixels; ++pixel) AddPixels<1>(source, args.channels, pixel, sums);
  for (int i = 0; i < 2 * args.channels; ++i) {
    double total = 0.0;
    for (int lane = 0; lane < kLanes; ++lane) total += static_cast<double>(sums[int64_t{i} * kLanes + lane]);
    args.sums[i] = total;
  }
}

template <bool kRelu>
void Apply(const BatchNormArgs& args) {
  const float* x = args.x;
  float* y = args.y;
  for (int64_t pixel = 0; pixel < args.pixels; ++pixel) {
    for (int c = 0; c < args.channels; ++c, x += kLanes, y += kLanes) {
      const V z = Affine(Load(x), args.scale[c], args.shift[c]);
      Store(y, kRelu ? ActivationKernel<Activation::kRelu>::Forward(z) : z);
    }
  }
}

template <bool kRelu, bool kMasked>
void GradientApply(const BatchNormArgs& args) {
  const VI mask = LanesBelow(args.lanes);
  const int64_t row = int64_t{args.channels} * kLanes;
  for (int64_t begin = 0; begin < args.pixels * row; begin += row) {
    for (int c = 0; c < args.channels; ++c) {
      const int64_t offset = begin + c * kLanes;
      const V x = Load(args.x + offset);
      const V dz = GradientOfZ<kRelu>(args, x, Load(args.dy + offset), c);
      V dx = dz * Splat(args.dz_factor[c]) + Affine(x, args.x_factor[c], args.constant[c]);
      if constexpr (kMasked) dx = And(mask, dx);
      Store(args.y + offset, dx);
    }
  }
}

}  // namespace

namespace TRAINYARD_ISA {

void BatchNormMoments(const BatchNormArgs& args) {
  const VI mask = LanesBelow(args.lanes);
  if (args.lanes < kLanes) return Sum(args, MomentTerms<true>{args, mask});
  Sum(args, MomentTerms<false>{args, mask});
}

void BatchNormApply(const BatchNormArgs& args) { args.relu ? Apply<true>(args) : Apply<false>(args); }

void BatchNormGradientSums(const BatchNormArgs& args) {
  if (args.relu) return Sum(args, GradientTerms<true>{args});
  Sum(args, GradientTerms<false>{args});
}

void BatchNormGradientApply(const BatchNormArgs& args) {
  const bool masked = args.lanes < kLanes;
  if (args.relu) return masked ? GradientApply<true, true>(args) : GradientApply<true, false>(args);
  return masked ? GradientApply<false, true>(args) : GradientApply<false, false>(args);
}

double SumOfSquares(const float* x, int64_t elements) {
  constexpr int64_t kBlock = 64 * kLanes;  // added up as floats
  double total = 0.0;
  for (int64_t begin = 0; begin < elements; begin += kBlock) {
    const int64_t end = begin + kBlock < elements ? begin + kBlock : elements;
    V sum = {};
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      const V v = LoadUnaligned(x + i);
      sum += v * v;
    }
    for (int lane = 0; lane < kLanes; ++lane) total += static_cast<double>(sum[lane]);
    for (; i < end; ++i) total += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  return total;
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
