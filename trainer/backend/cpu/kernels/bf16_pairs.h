// bfloat16 in pairs of channels, and how two vectors of f32 become one of pairs. Round does the
// rounding: Pairs(low, high) puts low[i] into the lower half of lane i, high[i] into the upper.
// InOrder(first, second) leaves their 32 values one after the other.
#pragma once

#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

using VU = uint32_t __attribute__((vector_size(64)));

// Rounds by whole numbers, where no instruction does.
struct RoundByIntegers {
  static VU Pairs(V low, V high) { return (RoundUpper(low) >> 16) | (RoundUpper(high) & 0xffff0000u); }
  static VU InOrder(V first, V second) {
    return Pairs(__builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
                 __builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31));
  }

 private:
  // To nearest, to even between two, in the upper half of each lane; the lower half is anything. A
  // NaN keeps its upper bits and becomes a quiet one.
  static VU RoundUpper(V v) {
    const VU bits = reinterpret_cast<VU>(v);
    const VU rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    const auto nan = reinterpret_cast<VU>(v != v);
    return (nan & (bits | 0x400000u)) | (~nan & rounded);
  }
};

// Panels of pairs (panels.h).
template <typename Round>
struct PairPanels {
  using Element = uint16_t;
  static constexpr int kChannels = 2;
  static void Load(const Element* from, V* values) {
    VU pairs;
    __builtin_memcpy(&pairs, from, sizeof pairs);
    values[0] = reinterpret_cast<V>(pairs << 16);
    values[1] = reinterpret_cast<V>(pairs & 0xffff0000u);
  }
  static void Store(Element* to, const V* values) {
    const VU pairs = Round::Pairs(values[0], values[1]);
    __builtin_memcpy(to, &pairs, sizeof pairs);
  }
  static V Rounded(V value) { return reinterpret_cast<V>(Round::Pairs(value, value) & 0xffff0000u); }
};

}  // namespace
}  // namespace trainyard::engine
