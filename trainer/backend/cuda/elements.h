// Elements of values in device memory: several at once are loaded as f32, and stored from it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "trainer/backend/cuda/device_code.h"
#include "trainer/backend/cuda/float16_bits.h"

namespace trainyard::engine::cuda {

// The upper half of an f32 (tensor/bfloat16.h).
struct Bfloat16 {
  uint16_t bits;
};

// IEEE 754 binary16 (tensor/float16.h).
struct Float16 {
  uint16_t bits;
};

// The kinds of elements that a value of reals may have.
enum class Element : uint8_t { kFloat32, kBfloat16, kFloat16 };

TY_DEVICE inline float Widened(float x) { return x; }
TY_DEVICE inline float Widened(Bfloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }
TY_DEVICE inline float Widened(Float16 x) { return FromFloat16Bits(x.bits); }

// To nearest, of two as near to even; a NaN stays one.
TY_DEVICE inline void Narrow(float x, float& y) { y = x; }
TY_DEVICE inline void Narrow(float x, Bfloat16& y) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const uint32_t rounded = nan ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u);
  y.bits = static_cast<uint16_t>(rounded >> 16);
}
TY_DEVICE inline void Narrow(float x, Float16& y) { y.bits = ToFloat16Bits(x); }

// `call` gets the type of elements: call.operator()<T>().
template <typename Call>
auto WithElement(Element element, const Call& call) {
  if (element == Element::kBfloat16) return call.template operator()<Bfloat16>();
  if (element == Element::kFloat16) return call.template operator()<Float16>();
  return call.template operator()<float>();
}
inline int64_t BytesOfElement(Element element) { return element == Element::kFloat32 ? sizeof(float) : sizeof(uint16_t); }

// Neighbours that one instruction loads or stores.
template <typename T, int kN>
struct alignas(kN * sizeof(T)) Neighbours {
  T at[kN];
};

// `from` is aligned to kN elements, as `to` of Store is.
template <int kN, typename T>
TY_DEVICE void Load(const T* from, float (&to)[kN]) {
  const Neighbours<T, kN> loaded = *reinterpret_cast<const Neighbours<T, kN>*>(from);
  for (int k = 0; k < kN; ++k) to[k] = Widened(loaded.at[k]);
}
template <int kN, typename T>
TY_DEVICE void Store(const float (&from)[kN], T* to) {
  Neighbours<T, kN> stored;
  for (int k = 0; k < kN; ++k) Narrow(from[k], stored.at[k]);
  *reinterpret_cast<Neighbours<T, kN>*>(to) = stored;
}

inline constexpr int kMostNeighbours = 4;
// The most elements, a power of two, that rows of `row` elements can be cut into without a rest.
constexpr int NeighboursIn(int64_t row) {
  int neighbours = kMostNeighbours;
  while (row % neighbours != 0) neighbours /= 2;
  return neighbours;
}
// The same where all of `pointers` must be aligned to them; those may be null.
template <typename... T>
int NeighboursIn(int64_t row, const T*... pointers) {
  int neighbours = NeighboursIn(row);
  const auto fits = [&](const void* pointer, size_t size) { return reinterpret_cast<uintptr_t>(pointer) % (neighbours * size) == 0; };
  while (!(fits(pointers, sizeof(T)) && ...)) neighbours /= 2;
  return neighbours;
}

// `call` gets the number as a constant: what NeighboursIn has found.
template <typename Call>
void WithNeighbours(int neighbours, const Call& call) {
  static_assert(kMostNeighbours == 4);
  if (neighbours == 4) return call(std::integral_constant<int, 4>());
  if (neighbours == 2) return call(std::integral_constant<int, 2>());
  call(std::integral_constant<int, 1>());
}

}  // namespace trainyard::engine::cuda
