// How kernels that are compiled for each read and write values in rows: as f32, as bfloat16 or as
// fractions of 16 bits, one after the other. Places count elements, and are the same in all. Of a
// count below 16 no more is read or written.
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

// Elements of 16 bits, the first `count` of them; zeros behind.
template <typename Row, typename Element>
Row LoadRow(const Element* from, int count) {
  Row row = {};
  if (count >= kLanes) {
    __builtin_memcpy(&row, from, sizeof row);
  } else {
    for (int i = 0; i < count; ++i) row[i] = from[i];
  }
  return row;
}

// bfloat16 as f32.
inline V LoadRounded(const uint16_t* from, int count) {
  using Row = uint16_t __attribute__((vector_size(32)));
  return reinterpret_cast<V>(__builtin_convertvector(LoadRow<Row>(from, count), VU) << 16);
}

// Values from -1 to 1 in steps of 1 / 32767, to nearest: -1, 0 and 1 are exact. A NaN becomes a
// number.
struct FractionRows {
  using Element = int16_t;
  using Row = int16_t __attribute__((vector_size(32)));
  static constexpr float kOne = 32767.0f;

  static V Load(const Element* from, int count) {
    return __builtin_convertvector(__builtin_convertvector(LoadRow<Row>(from, count), VI), V) * (1.0f / kOne);
  }
  static void Store(Element* to, V v, int count) {
    const V steps = Select(v == v, v, V{}) * kOne;
    const V half = AsFloat((AsInt(steps) & SplatInt(INT32_MIN)) | AsInt(Splat(0.5f)));
    const Row row = __builtin_convertvector(__builtin_convertvector(steps + half, VI), Row);
    if (count >= kLanes) {
      __builtin_memcpy(to, &row, sizeof row);
    } else {
      for (int i = 0; i < count; ++i) to[i] = row[i];
    }
  }
};

// Rounded where they are stored.
template <typename Round>
struct RoundedRows {
  using Element = uint16_t;
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
