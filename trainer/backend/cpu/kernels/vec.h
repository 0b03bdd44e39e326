// The one vector type of the kernels: 16 floats, in as many registers as the instruction set needs.
// Included by kernels/*.cc only, which are compiled once per instruction set. Everything here has
// internal linkage: no code of one set is linked into another.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace trainyard::engine {
namespace {

using V = float __attribute__((vector_size(64)));
using VI = int32_t __attribute__((vector_size(64)));
using VUnaligned [[gnu::aligned(4)]] = V;
using V8 = uint8_t __attribute__((vector_size(16)));

// kVectors: how many V fit into the vector registers. kMaxSums of them may be sums of conv_forward,
// of up to kMaxColumns columns. The rest holds operands.
constexpr int kVectors = TRAINYARD_KERNEL_VECTORS;
constexpr int kMaxSums = kVectors >= 32 ? 25 : kVectors >= 8 ? 6 : 3;
constexpr int kMaxColumns = kVectors >= 32 ? 6 : 1;
// Of conv_rows: vectors of columns, and the most pixels for each number of them. Sums, weights and
// one value of x fill the registers.
constexpr int kMaxRowsVectors = kVectors >= 32 ? 4 : kVectors >= 8 ? 2 : 1;
constexpr int kMaxRowsPixels = kVectors >= 32 ? 14 : kVectors - 2;
constexpr int RowsPixels(int vectors) {
  const int most = (kVectors - 1 - vectors) / vectors;
  return vectors > kMaxRowsVectors ? 0 : most < kMaxRowsPixels ? most : kMaxRowsPixels;
}
// Of product: rows of a panel of b, which are read again for each block of rows of a. 128 of 4
// vectors are the nearest cache. Where multiply-adds are few a cycle, the second cache keeps up
// with them, and longer sums are worth more.
constexpr int kMaxProductSteps = kVectors >= 32 ? 128 : 256;

inline V Load(const float* p) { return *reinterpret_cast<const V*>(p); }
inline V LoadUnaligned(const float* p) { return *reinterpret_cast<const VUnaligned*>(p); }
inline void Store(float* p, V v) { *reinterpret_cast<V*>(p) = v; }
inline void StoreUnaligned(float* p, V v) { *reinterpret_cast<VUnaligned*>(p) = v; }
// The first `count` values, 0 to 16, zeros behind them; nothing beyond is read or written.
inline V LoadPart(const float* p, int count) {
  V v = {};
  for (int i = 0; i < count && i < 16; ++i) v[i] = p[i];
  return v;
}
inline void StorePart(float* p, V v, int count) {
  for (int i = 0; i < count && i < 16; ++i) p[i] = v[i];
}
// Into the second cache; the address may lie beyond the values.
inline void PrefetchRead(const void* p) { __builtin_prefetch(p, 0, 2); }
inline void PrefetchWrite(const void* p) { __builtin_prefetch(p, 1, 2); }
inline V Splat(float x) { return V{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
inline VI SplatInt(int32_t x) { return VI{} + x; }
inline VI AsInt(V v) { return reinterpret_cast<VI>(v); }
inline V AsFloat(VI v) { return reinterpret_cast<V>(v); }
// mask lanes are all ones or all zeros
inline V Select(VI mask, V a, V b) { return AsFloat((mask & AsInt(a)) | (~mask & AsInt(b))); }
inline VI Select(VI mask, VI a, VI b) { return (mask & a) | (~mask & b); }
// b where one of them is NaN: give the value second whose NaN is to stay.
inline V Max(V a, V b) { return Select(a > b, a, b); }
inline V Min(V a, V b) { return Select(a < b, a, b); }
inline int MinInt(int a, int b) { return a < b ? a : b; }
inline int MaxInt(int a, int b) { return a > b ? a : b; }

// The sums over lanes of 16 vectors, lane i of the result for vectors[i]; always by the same tree.
inline V SumLanes(V* v) {
  for (int i = 0; i < 8; ++i) {
    v[i] = __builtin_shufflevector(v[i], v[i + 8], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23) +
           __builtin_shufflevector(v[i], v[i + 8], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  }
  for (int i = 0; i < 4; ++i) {
    v[i] = __builtin_shufflevector(v[i], v[i + 4], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27) +
           __builtin_shufflevector(v[i], v[i + 4], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
  }
  for (int i = 0; i < 2; ++i) {
    v[i] = __builtin_shufflevector(v[i], v[i + 2], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
           __builtin_shufflevector(v[i], v[i + 2], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  }
  return __builtin_shufflevector(v[0], v[1], 0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30) +
         __builtin_shufflevector(v[0], v[1], 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31);
}

}  // namespace
}  // namespace trainyard::engine
