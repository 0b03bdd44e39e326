// The gradient of max pooling, all in panels of f32 or all in panels of bfloat16 (panels.h).
// Windows that overlap add up in what holds them: a caller gives them f32.
#pragma once

#include "trainer/backend/cpu/kernels.h"
#include "trainer/backend/cpu/kernels/activations.h"
#include "trainer/backend/cpu/kernels/panels.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

// The part of a window of `size` starting at `start` that lies inside [0, in).
struct Span {
  int begin, end;
};
inline Span Inside(int start, int size, int in) { return {MaxInt(0, start), MinInt(in, start + size)}; }

struct PoolStrides {
  int64_t in_column, in_row, in_panel, out_row, out_panel;
  explicit PoolStrides(const PoolArgs& args)
      : in_column(int64_t{args.channels} * kLanes),
        in_row(in_column * args.in_w),
        in_panel(in_row * args.in_h),
        out_row(in_column * args.out_w),
        out_panel(out_row * args.out_h) {}
};

template <typename Panels, Activation kActivation>
void UnpoolPanel(const PoolArgs& args, const PoolStrides& strides, int panel) {
  constexpr int kChannels = Panels::kChannels;
  using Element = typename Panels::Element;
  auto* const dx = reinterpret_cast<Element*>(args.y) + panel * strides.in_panel;
  const auto* const dy = reinterpret_cast<const Element*>(args.x);
  const auto* const y = reinterpret_cast<const Element*>(args.activated);
  // Windows that tile the image from its corner write each pixel once; others add into zeros.
  const bool tiles = args.stride_h == args.size_h && args.stride_w == args.size_w && args.pad_top == 0 && args.pad_left == 0;
  const bool covers = tiles && args.out_h * args.size_h == args.in_h && args.out_w * args.size_w == args.in_w;
  if (!covers) {
    constexpr V kZeros[kChannels] = {};
    for (int64_t i = 0; i < strides.in_panel; i += kChannels * kLanes) Panels::Store(dx + i, kZeros);
  }
  for (int row = 0; row < args.out_h; ++row) {
    const Span rows = Inside(row * args.stride_h - args.pad_top, args.size_h, args.in_h);
    for (int column = 0; column < args.out_w; ++column) {
      const Span columns = Inside(column * args.stride_w - args.pad_left, args.size_w, args.in_w);
      const int64_t at = panel * strides.out_panel + row * strides.out_row + column * strides.in_column;
      const int first =
          (rows.begin - row * args.stride_h + args.pad_top) * args.size_w + columns.begin - column * args.stride_w + args.pad_left;
      auto* const corner = dx + rows.begin * strides.in_row + columns.begin * strides.in_column;
      for (int c = args.channel_begin; c < args.channel_end; c += kChannels) {
        const int64_t i = at + int64_t{c} * kLanes;
        V gradient[kChannels], activated[kChannels];
        VI winner[kChannels];
        Panels::Load(dy + i, gradient);
        if constexpr (kActivation != Activation::kIdentity) Panels::Load(y + i, activated);
        for (int k = 0; k < kChannels; ++k) {
          if constexpr (kActivation != Activation::kIdentity) {
            gradient[k] = ActivationKernel<kActivation>::Gradient(gradient[k], activated[k]);
          }
          winner[k] = __builtin_convertvector(*reinterpret_cast<const V8*>(args.winners + i + k * kLanes), VI);
        }
        for (int r = 0; r < rows.end - rows.begin; ++r) {
          for (int j = 0; j < columns.end - columns.begin; ++j) {
            auto* const to = corner + r * strides.in_row + j * strides.in_column + int64_t{c} * kLanes;
            V part[kChannels], before[kChannels];
            for (int k = 0; k < kChannels; ++k) {
              part[k] = AsFloat((winner[k] == SplatInt(first + r * args.size_w + j)) & AsInt(gradient[k]));
            }
            if (!tiles) {
              Panels::Load(to, before);
              for (int k = 0; k < kChannels; ++k) part[k] += before[k];
            }
            Panels::Store(to, part);
            PrefetchWrite(to + 1024);
          }
        }
      }
    }
  }
}

template <typename Panels>
struct UnpoolOf {
  static void Run(const PoolArgs& args, int begin, int end) {
    const PoolStrides strides(args);
    VisitActivation(args.activation, [&]<Activation kActivation>() {
      for (int panel = begin; panel < end; ++panel) UnpoolPanel<Panels, kActivation>(args, strides, panel);
    });
  }
};

}  // namespace
}  // namespace trainyard::engine
