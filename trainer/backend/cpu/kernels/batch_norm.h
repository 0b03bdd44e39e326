// Batch normalisation of panels of f32 or of bfloat16 (panels.h). Everything here is bound by
// memory, so x is read in one stream: pixels in order, four at a time. The sums of all channels
// wait in the first-level cache.
#pragma once

#include "trainer/backend/cpu/batch_norm_args.h"
#include "trainer/backend/cpu/kernels/activations.h"
#include "trainer/backend/cpu/kernels/panels.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

// Elements between what is worked on and what is asked for: hardware stops at pages of 4 KiB.
constexpr int64_t kAhead = 2048;
// Pixels that share one load and store of the sums.
constexpr int kTogether = 4;

inline VI LanesBelow(int lanes) {
  const VI lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return lane < SplatInt(lanes);
}
inline V And(VI mask, V v) { return AsFloat(mask & AsInt(v)); }
inline V Affine(V x, float scale, float shift) { return x * Splat(scale) + Splat(shift); }

template <typename Panels>
const typename Panels::Element* In(const void* values) {
  return static_cast<const typename Panels::Element*>(values);
}

// What is added for one vector of a channel: `first`, and first * factor.
template <typename Panels>
struct Terms {
  V first[Panels::kChannels], factor[Panels::kChannels];
};

template <typename PanelsOf, bool kMasked>
struct MomentTerms {
  using Panels = PanelsOf;
  const BatchNormArgs& args;
  VI mask;
  Terms<Panels> At(int64_t offset, int c) const {
    Terms<Panels> terms;
    Panels::Load(In<Panels>(args.x) + offset, terms.first);
    PrefetchRead(In<Panels>(args.x) + offset + kAhead);
    for (int i = 0; i < Panels::kChannels; ++i) {
      V distance = terms.first[i] - args.pivot[c + i];
      if constexpr (kMasked) distance = And(mask, distance);
      terms.first[i] = terms.factor[i] = distance;
    }
    return terms;
  }
};

template <bool kRelu>
inline V GradientOfZ(const BatchNormArgs& args, V x, V dy, int c) {
  if constexpr (kRelu) return ActivationKernel<Activation::kRelu>::Gradient(dy, Affine(x, args.scale[c], args.shift[c]));
  return dy;
}

// dy is zero in lanes without a sample, so these need no mask.
template <typename PanelsOf, bool kRelu>
struct GradientTerms {
  using Panels = PanelsOf;
  const BatchNormArgs& args;
  Terms<Panels> At(int64_t offset, int c) const {
    Terms<Panels> terms;
    V x[Panels::kChannels];
    Panels::Load(In<Panels>(args.x) + offset, x);
    Panels::Load(In<Panels>(args.dy) + offset, terms.first);
    PrefetchRead(In<Panels>(args.x) + offset + kAhead);
    PrefetchRead(In<Panels>(args.dy) + offset + kAhead);
    for (int i = 0; i < Panels::kChannels; ++i) {
      terms.first[i] = GradientOfZ<kRelu>(args, x[i], terms.first[i], c + i);
      terms.factor[i] = x[i] - args.pivot[c + i];
    }
    return terms;
  }
};

template <int kPixels, typename Source>
inline void AddPixels(const Source& source, int channels, int64_t pixel, float* sums) {
  constexpr int kChannels = Source::Panels::kChannels;
  const int64_t row = int64_t{channels} * kLanes;
  for (int c = 0; c < channels; c += kChannels) {
    V first[kChannels], second[kChannels];
    for (int i = 0; i < kChannels; ++i) {
      first[i] = Load(sums + (c + i) * kLanes);
      second[i] = Load(sums + row + (c + i) * kLanes);
    }
    for (int p = 0; p < kPixels; ++p) {
      const auto terms = source.At((pixel + p) * row + c * kLanes, c);
      for (int i = 0; i < kChannels; ++i) {
        first[i] += terms.first[i];
        second[i] += terms.first[i] * terms.factor[i];
      }
    }
    for (int i = 0; i < kChannels; ++i) {
      Store(sums + (c + i) * kLanes, first[i]);
      Store(sums + row + (c + i) * kLanes, second[i]);
    }
  }
}

// The lanes of each vector added up.
inline void SumVectors(const float* vectors, int count, double* sums) {
  for (int begin = 0; begin < count; begin += kLanes) {
    const int width = MinInt(kLanes, count - begin);
    V block[kLanes] = {};
    for (int i = 0; i < width; ++i) block[i] = Load(vectors + int64_t{begin + i} * kLanes);
    const V totals = SumLanes(block);
    for (int i = 0; i < width; ++i) sums[begin + i] = static_cast<double>(totals[i]);
  }
}

template <typename Source>
void Sum(const BatchNormArgs& args, const Source& source) {
  float* const sums = args.scratch;
  for (int64_t i = 0; i < int64_t{2} * args.channels; ++i) Store(sums + i * kLanes, V{});
  int64_t pixel = 0;
  for (; pixel + kTogether <= args.pixels; pixel += kTogether) AddPixels<kTogether>(source, args.channels, pixel, sums);
  for (; pixel < args.pixels; ++pixel) AddPixels<1>(source, args.channels, pixel, sums);
  SumVectors(sums, 2 * args.channels, args.sums);
}

template <typename Panels, bool kRelu>
void Apply(const BatchNormArgs& args) {
  const auto* x = In<Panels>(args.x);
  auto* y = static_cast<typename Panels::Element*>(args.y);
  constexpr int kStep = Panels::kChannels * kLanes;
  for (int64_t pixel = 0; pixel < args.pixels; ++pixel) {
    for (int c = 0; c < args.channels; c += Panels::kChannels, x += kStep, y += kStep) {
      V z[Panels::kChannels];
      Panels::Load(x, z);
      PrefetchRead(x + kAhead);
      PrefetchWrite(y + kAhead);
      for (int i = 0; i < Panels::kChannels; ++i) {
        z[i] = Affine(z[i], args.scale[c + i], args.shift[c + i]);
        if constexpr (kRelu) z[i] = ActivationKernel<Activation::kRelu>::Forward(z[i]);
      }
      Panels::Store(y, z);
    }
  }
}

template <typename Panels, bool kRelu, bool kMasked, bool kAdd>
void GradientApply(const BatchNormArgs& args) {
  const VI mask = LanesBelow(args.lanes);
  const int64_t row = int64_t{args.channels} * kLanes;
  for (int64_t begin = 0; begin < args.pixels * row; begin += row) {
    for (int c = 0; c < args.channels; c += Panels::kChannels) {
      const int64_t offset = begin + c * kLanes;
      V x[Panels::kChannels], dx[Panels::kChannels], add[Panels::kChannels];
      Panels::Load(In<Panels>(args.x) + offset, x);
      Panels::Load(In<Panels>(args.dy) + offset, dx);
      PrefetchRead(In<Panels>(args.x) + offset + kAhead);
      PrefetchRead(In<Panels>(args.dy) + offset + kAhead);
      if constexpr (kAdd) PrefetchRead(In<Panels>(args.add) + offset + kAhead);
      PrefetchWrite(static_cast<typename Panels::Element*>(args.y) + offset + kAhead);
      if constexpr (kAdd) Panels::Load(In<Panels>(args.add) + offset, add);
      for (int i = 0; i < Panels::kChannels; ++i) {
        const V dz = GradientOfZ<kRelu>(args, x[i], dx[i], c + i);
        dx[i] = dz * Splat(args.dz_factor[c + i]) + Affine(x[i], args.x_factor[c + i], args.constant[c + i]);
        if constexpr (kMasked) dx[i] = And(mask, dx[i]);
        if constexpr (kAdd) dx[i] += add[i];
      }
      Panels::Store(static_cast<typename Panels::Element*>(args.y) + offset, dx);
    }
  }
}

template <typename Panels>
struct BatchNormOf {
  static void Moments(const BatchNormArgs& args) {
    const VI mask = LanesBelow(args.lanes);
    if (args.lanes < kLanes) return Sum(args, MomentTerms<Panels, true>{args, mask});
    Sum(args, MomentTerms<Panels, false>{args, mask});
  }

  static void Apply(const BatchNormArgs& args) { args.relu ? engine::Apply<Panels, true>(args) : engine::Apply<Panels, false>(args); }

  static void GradientSums(const BatchNormArgs& args) {
    if (args.relu) return Sum(args, GradientTerms<Panels, true>{args});
    Sum(args, GradientTerms<Panels, false>{args});
  }

  static void GradientApply(const BatchNormArgs& args) { args.relu ? MaskedApply<true>(args) : MaskedApply<false>(args); }

  static constexpr BatchNormKernels kKernels = {
      .moments = Moments, .apply = Apply, .gradient_sums = GradientSums, .gradient_apply = GradientApply};

 private:
  template <bool kRelu>
  static void MaskedApply(const BatchNormArgs& args) {
    args.lanes < kLanes ? AddingApply<kRelu, true>(args) : AddingApply<kRelu, false>(args);
  }
  template <bool kRelu, bool kMasked>
  static void AddingApply(const BatchNormArgs& args) {
    args.add == nullptr ? engine::GradientApply<Panels, kRelu, kMasked, false>(args)
                        : engine::GradientApply<Panels, kRelu, kMasked, true>(args);
  }
};

}  // namespace
}  // namespace trainyard::engine
