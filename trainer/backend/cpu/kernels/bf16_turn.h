// Values in pairs of channels as operands of sums over samples: each channel's samples of two
// panels, 32, lie in a row.
#pragma once

#include "trainer/backend/cpu/kernels/bf16_pack.h"

namespace trainyard::engine {
namespace {

using Halves = uint16_t __attribute__((vector_size(64)));

inline Halves LoadHalves(const uint16_t* from) {
  Halves halves;
  __builtin_memcpy(&halves, from, sizeof halves);
  return halves;
}

// Of the pairs of two panels: the lower channel's samples, and the upper one's.
inline Halves LowerSamples(Halves first, Halves second) {
  return __builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, 40, 42, 44, 46,
                                 48, 50, 52, 54, 56, 58, 60, 62);
}
inline Halves UpperSamples(Halves first, Halves second) {
  return __builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43, 45, 47,
                                 49, 51, 53, 55, 57, 59, 61, 63);
}

inline void TurnLeft(const uint16_t* from, int64_t other, int64_t vectors, uint16_t* to) {
  for (int64_t v = 0; v < vectors; v += 2, from += kGroupPair, to += 2 * kGroupPair) {
    const Halves first = LoadHalves(from);
    const Halves second = LoadHalves(from + other);
    const Halves lower = LowerSamples(first, second);
    const Halves upper = UpperSamples(first, second);
    __builtin_memcpy(to, &lower, sizeof lower);
    __builtin_memcpy(to + kGroupPair, &upper, sizeof upper);
  }
}

// The samples of two channels, both panels, added to their 16 sums each.
inline void AddSamples(Halves pairs, float* sums) {
  const VU bits = reinterpret_cast<VU>(pairs);
  Store(sums, Load(sums) + reinterpret_cast<V>(bits << 16));
  Store(sums + kLanes, Load(sums + kLanes) + reinterpret_cast<V>(bits & 0xffff0000u));
}

inline void TurnRight(const uint16_t* from, int64_t other, int outputs, float* sums, uint16_t* to) {
  for (int begin = 0; begin < outputs; begin += kLanes, to += kLanes * kGroupPair) {
    VU block[kLanes] = {};
    const int end = MinInt(begin + kLanes, outputs);
    for (int o = begin; o < end; o += 2, from += kGroupPair) {
      const Halves first = LoadHalves(from);
      const Halves second = other == 0 ? Halves{} : LoadHalves(from + other);
      block[o - begin] = reinterpret_cast<VU>(LowerSamples(first, second));
      block[o - begin + 1] = reinterpret_cast<VU>(UpperSamples(first, second));
      if (sums == nullptr) continue;
      AddSamples(first, sums + o * kLanes);
      AddSamples(second, sums + o * kLanes);
    }
    TransposePairs(block);
    __builtin_memcpy(to, block, sizeof block);
  }
}

}  // namespace
}  // namespace trainyard::engine
