// Row-major values to panels and back. Blocks of 16 samples x 16 features are transposed in
// registers.
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/panels_to_rows.h"
#include "trainer/backend/cpu/kernels/transpose.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

// One panel's features, any element type: what does not fill a block of 16 x 16.
template <typename From, typename To, typename Convert>
void PanelTail(const From* from, To* to, int samples, int64_t features, int64_t begin, Convert&& convert) {
  for (int64_t f = begin; f < features; ++f) {
    for (int n = 0; n < kLanes; ++n) to[f * kLanes + n] = n < samples ? convert(from[n * features + f]) : To{};
  }
}

template <typename T>
void RowsTail(const T* from, T* to, int samples, int64_t features, int64_t begin) {
  for (int n = 0; n < samples; ++n) {
    for (int64_t f = begin; f < features; ++f) to[n * features + f] = from[f * kLanes + n];
  }
}

}  // namespace

namespace TRAINYARD_ISA {

void ToPanelsF32(const ConvertArgs& args) {
  for (int first = 0; first < args.samples; first += kLanes) {
    const int samples = MinInt(kLanes, args.samples - first);
    const float* from = static_cast<const float*>(args.from) + first * args.features;
    float* to = static_cast<float*>(args.to) + first * args.features;
    int64_t f = 0;
    for (; f + kLanes <= args.features; f += kLanes) {
      V block[kLanes] = {};
      for (int n = 0; n < samples; ++n) block[n] = LoadUnaligned(from + n * args.features + f);
      Transpose(block);
      for (int i = 0; i < kLanes; ++i) Store(to + (f + i) * kLanes, block[i]);
    }
    PanelTail(from, to, samples, args.features, f, [](float x) { return x; });
  }
}

void ToPanelsU8(const ConvertArgs& args) {
  using V8Unaligned [[gnu::aligned(1)]] = V8;
  for (int first = 0; first < args.samples; first += kLanes) {
    const int samples = MinInt(kLanes, args.samples - first);
    const uint8_t* from = static_cast<const uint8_t*>(args.from) + first * args.features;
    float* to = static_cast<float*>(args.to) + first * args.features;
    int64_t f = 0;
    for (; f + kLanes <= args.features; f += kLanes) {
      V block[kLanes] = {};
      for (int n = 0; n < samples; ++n) {
        const VI wide = __builtin_convertvector(*reinterpret_cast<const V8Unaligned*>(from + n * args.features + f), VI);
        block[n] = __builtin_convertvector(wide, V) * args.scale;
      }
      Transpose(block);
      for (int i = 0; i < kLanes; ++i) Store(to + (f + i) * kLanes, block[i]);
    }
    PanelTail(from, to, samples, args.features, f, [&](uint8_t x) { return static_cast<float>(x) * args.scale; });
  }
}

void FromPanelsF32(const ConvertArgs& args) {
  for (int first = 0; first < args.samples; first += kLanes) {
    const int samples = MinInt(kLanes, args.samples - first);
    const float* from = static_cast<const float*>(args.from) + first * args.features;
    float* to = static_cast<float*>(args.to) + first * args.features;
    int64_t f = 0;
    for (; f + kLanes <= args.features; f += kLanes) {
      V block[kLanes];
      for (int i = 0; i < kLanes; ++i) block[i] = Load(from + (f + i) * kLanes);
      Transpose(block);
      for (int n = 0; n < samples; ++n) StoreUnaligned(to + n * args.features + f, block[n]);
    }
    RowsTail(from, to, samples, args.features, f);
  }
}

void FromPanelsU8(const ConvertArgs& args) {
  for (int first = 0; first < args.samples; first += kLanes) {
    RowsTail(static_cast<const uint8_t*>(args.from) + first * args.features, static_cast<uint8_t*>(args.to) + first * args.features,
             MinInt(kLanes, args.samples - first), args.features, 0);
  }
}

void PanelsToRows(const float* x, float* rows, int64_t pixels, int channels, int64_t stride) {
  RowsOf<WidePanels>::Run(x, rows, pixels, channels, stride);
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
