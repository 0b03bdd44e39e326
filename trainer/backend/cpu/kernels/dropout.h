// Dropout on panels of f32 or of bfloat16 (panels.h): four features of a sample take four words of
// one counter.
#pragma once

#include "trainer/backend/cpu/kernels.h"
#include "trainer/backend/cpu/kernels/philox16.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

template <typename Panels>
struct DropoutOf {
  static void Run(const DropoutArgs& args) {
    using Element = typename Panels::Element;
    constexpr int kChannels = Panels::kChannels;
    const U32 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    for (int panel = args.panel_begin; panel < args.panel_end; ++panel) {
      const auto* x = reinterpret_cast<const Element*>(args.x) + panel * args.features * kLanes;
      auto* y = reinterpret_cast<Element*>(args.y) + panel * args.features * kLanes;
      const U32 sample = lane + static_cast<uint32_t>(panel * kLanes);
      for (int64_t f = 0; f < args.features; f += 4) {
        const Words words = Philox16({{U32{} + static_cast<uint32_t>(f / 4), sample, U32{} + args.salt[0], U32{} + args.salt[1]}},
                                     args.key[0], args.key[1]);
        for (int64_t i = f; i < args.features && i < f + 4; i += kChannels) {
          V values[kChannels];
          Panels::Load(x + i * kLanes, values);
          for (int k = 0; k < kChannels; ++k) {
            const VI keep = reinterpret_cast<VI>(words.word[i - f + k] >= U32{} + args.threshold);
            values[k] = AsFloat(keep & AsInt(values[k] * args.scale));
          }
          Panels::Store(y + i * kLanes, values);
        }
      }
    }
  }
};

}  // namespace
}  // namespace trainyard::engine
