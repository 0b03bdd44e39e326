// Row-major values to panels and back. Blocks of 16 samples x 16 features are transposed in registers.
#include "trainer/backend/cpu/kernels/isa.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

// v[i][j] <-> v[j][i]: four rounds of exchanging halves, quarters, pairs and neighbours.
inline void Transpose(V* v) {
  V t[kLanes];
  for (int i = 0; i < 8; ++i) {
    t[i] = __builtin_shufflevector(v[i], v[i + 8], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
    t[i + 8] = __builtin_shufflevector(v[i], v[i + 8], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  }
  for (int base = 0; base < kLanes; base += 8) {
    for (int i = base; i < base + 4; ++i) {
      v[i] = __builtin_shufflevector(t[i], t[i + 4], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
      v[i + 4] = __builtin_shufflevector(t[i], t[i + 4], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
    }
  }
  for (int base = 0; base < kLanes; base += 4) {
    for (int i = base; i < base + 2; ++i) {
      t[i] = __builtin_shufflevector(v[i], v[i + 2], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
      t[i + 2] = __builtin_shufflevector(v[i], v[i + 2], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    }
  }
  for (int i = 0; i < kLanes; i += 2) {
    v[i] = __builtin_shufflevector(t[i], t[i + 1], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30);
    v[i + 1] = __builtin_shufflevector(t[i], t[i + 1], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
  }
}

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
  for (int64_t pixel = 0; pixel < pixels; ++pixel) {
    const float* from = x + pixel * channels * kLanes;
    float* to = rows + pixel * kLanes * stride;
    for (int64_t c = 0; c < stride; c += kLanes) {
      V block[kLanes] = {};
      const int width = static_cast<int>(channels - c < kLanes ? channels - c : kLanes);
      for (int i = 0; i < width; ++i) block[i] = Load(from + (c + i) * kLanes);
      Transpose(block);
      for (int n = 0; n < kLanes; ++n) Store(to + n * stride + c, block[n]);
    }
  }
}

}  // namespace TRAINYARD_ISA
}  // namespace trainyard::engine
