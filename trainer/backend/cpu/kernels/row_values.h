// How kernels that are compiled for both read and write values in rows: as f32, or as bfloat16, one
// after the other. Places count elements, and are the same in both. Of a count below 16 no more is
// read or written.
#pragma once

#include "trainer/backend/cpu/kernels/bf16_pairs.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

struct WideRows {
  using Element = float;
  static V Load(const Element* from, int count) { return LoadPart(from, count); }
  static void Store(Element* to, V v, int count) { StorePart(to, v, count); }
  static void StoreTwo(Element* to, V first, V second) {
    StoreUnaligned(to, first);
    StoreUnaligned(to + kLanes, second);
  }
};

inline V LoadRounded(const uint16_t* from, int count) {
  using Row = uint16_t __attribute__((vector_size(32)));
  Row row = {};
  if (count >= kLanes) {
    __builtin_memcpy(&row, from, sizeof row);
  } else {
    for (int i = 0; i < count; ++i) row[i] = from[i];
  }
  return reinterpret_cast<V>(__builtin_convertvector(row, VU) << 16);
}

// Rounded where they are stored.
template <typename Round>
struct RoundedRows {
  using Element = uint16_t;
  static V Load(const Element* from, int count) { return LoadRounded(from, count); }
  static void Store(Element* to, V v, int count) {
    const VU row = Round::InOrder(v, V{});
    if (count >= kLanes) {
      __builtin_memcpy(to, &row, sizeof row / 2);
    } else {
      __builtin_memcpy(to, &row, static_cast<size_t>(MaxInt(0, count)) * sizeof *to);
    }
  }
  static void StoreTwo(Element* to, V first, V second) {
    const VU row = Round::InOrder(first, second);
    __builtin_memcpy(to, &row, sizeof row);
  }
};

}  // namespace
}  // namespace trainyard::engine
