// Panels of f32 or of bfloat16 (panels.h) as rows of f32, one for each sample of each pixel.
#pragma once

#include "trainer/backend/cpu/kernels/panels.h"
#include "trainer/backend/cpu/kernels/transpose.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

template <typename Panels>
struct RowsOf {
  using Element = typename Panels::Element;

  // [pixels][channels][16] -> [pixels * 16][stride]; what lies behind `channels` becomes zero.
  static void Run(const Element* x, float* rows, int64_t pixels, int channels, int64_t stride) {
    for (int64_t pixel = 0; pixel < pixels; ++pixel) {
      const Element* from = x + pixel * channels * kLanes;
      float* to = rows + pixel * kLanes * stride;
      for (int64_t c = 0; c < stride; c += kLanes) {
        V block[kLanes];
        channels - c < kLanes ? LoadPart(from + c * kLanes, static_cast<int>(channels - c), block) : LoadAll(from + c * kLanes, block);
        Transpose(block);
        for (int n = 0; n < kLanes; ++n) Store(to + n * stride + c, block[n]);
      }
    }
  }

 private:
  // Elements between what is read and what is fetched: hardware stops at pages, and callers read a
  // few pixels here and there.
  static constexpr int64_t kAhead = 4096;

  // A count that the compiler knows: else it copies the vectors first.
  static void LoadAll(const Element* from, V* block) {
    for (int i = 0; i < kLanes; i += Panels::kChannels) {
      Panels::Load(from + i * kLanes, block + i);
      PrefetchRead(from + i * kLanes + kAhead);
    }
  }
  static void LoadPart(const Element* from, int channels, V* block) {
    for (int i = 0; i < kLanes; i += Panels::kChannels) {
      if (i < channels) {
        Panels::Load(from + i * kLanes, block + i);
      } else {
        for (int k = 0; k < Panels::kChannels; ++k) block[i + k] = V{};
      }
    }
  }
};

}  // namespace
}  // namespace trainyard::engine
