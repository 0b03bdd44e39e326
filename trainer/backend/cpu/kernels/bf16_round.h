// Rounds vectors of floats to bfloat16.
#pragma once

#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

using VU = uint32_t __attribute__((vector_size(64)));

// To nearest, to even between two, in the upper half of each lane; the lower half is anything. A
// NaN keeps its upper bits and becomes a quiet one.
inline VU RoundUp16(V v) {
  const VU bits = reinterpret_cast<VU>(v);
  const VU rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const auto nan = reinterpret_cast<VU>(v != v);
  return (nan & (bits | 0x400000u)) | (~nan & rounded);
}

// Lane i: low[i] in the lower half, high[i] in the upper.
inline VU RoundPairs(V low, V high) { return (RoundUp16(low) >> 16) | (RoundUp16(high) & 0xffff0000u); }

// The 32 values of two vectors in their order: pairs of neighbours.
inline VU RoundInOrder(V first, V second) {
  return RoundPairs(__builtin_shufflevector(first, second, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30),
                    __builtin_shufflevector(first, second, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31));
}

}  // namespace
}  // namespace trainyard::engine
