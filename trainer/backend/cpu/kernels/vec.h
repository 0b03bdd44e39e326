// The one vector type of the kernels: 16 floats, in as many registers as the instruction set needs.
// Included by kernels/*.cc only, which are compiled once per instruction set. Everything here has
// internal linkage: no code of one set is linked into another.
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif
#include <stddef.h>
#include <stdint.h>

#include "trainer/backend/cpu/lanes.h"

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
// Of conv_rows: vectors of columns in a panel, and the most pixels for each number of them. Sums,
// weights and one value of x fill the registers. A single pixel takes several panels at a time.
constexpr int kMaxRowsVectors = kVectors >= 32 ? 4 : 1;
constexpr int kMaxRowsPixels = kVectors >= 32 ? 14 : kVectors - 2;
constexpr int RowsPixels(int vectors) {
  const int most = (kVectors - 1 - vectors) / vectors;
  return vectors > kMaxRowsVectors ? 0 : most < kMaxRowsPixels ? most : kMaxRowsPixels;
}
// Of product: rows of a panel of b, which are read again for each block of rows of a. 128 of 4
// vectors are the nearest cache. Where multiply-adds are few a cycle, the second cache keeps up
// with them, and longer sums are worth more.
constexpr int kMaxProductSteps = kVectors >= 32 ? 128 : 256;
// Steps of a product from one look at what to fetch to the next. Where registers are few, so are a
// step's multiply-adds, and what is beside them counts.
constexpr int kStepsOfFetch = kVectors >= 32 ? 1 : 2;

inline V Load(const float* p) { return *reinterpret_cast<const V*>(p); }
inline V LoadUnaligned(const float* p) { return *reinterpret_cast<const VUnaligned*>(p); }
inline void Store(float* p, V v) { *reinterpret_cast<V*>(p) = v; }
inline void StoreUnaligned(float* p, V v) { *reinterpret_cast<VUnaligned*>(p) = v; }
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

// a b + c, rounded once where the instruction set can. The compiler would contract the expression
// too, but in one instance of a template and not in another where sanitizers' checks lie between.
template <typename T>
inline T MultiplyAdd(T a, T b, T c) {
#if defined(__clang__) && (defined(__FMA__) || defined(__ARM_FEATURE_FMA))
  return __builtin_elementwise_fma(a, b, c);
#else
  return a * b + c;
#endif
}

// The first `count` values, 0 to 15, and zeros behind them. Nothing else is read or written.
#if defined(__AVX512F__)
inline __mmask16 FirstLanes(int count) { return static_cast<__mmask16>((1u << count) - 1); }
inline V LoadLessThanAll(const float* p, int count) { return _mm512_maskz_loadu_ps(FirstLanes(count), p); }
inline void StoreLessThanAll(float* p, V v, int count) { _mm512_mask_storeu_ps(p, FirstLanes(count), v); }
#else
#if defined(__AVX2__)
inline V LoadLessThanAll(const float* p, int count) {
  alignas(64) static constexpr int32_t kMask[2 * kLanes] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  const int32_t* mask = kMask + kLanes - count;
  const __m256 low = _mm256_maskload_ps(p, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(mask)));
  const __m256 high = _mm256_maskload_ps(p + 8, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(mask + 8)));
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
#else
inline V LoadLessThanAll(const float* p, int count) {
  V v = {};
  for (int i = 0; i < count; ++i) v[i] = p[i];
  return v;
}
#endif
// In halves of halves: a masked store of AVX2 takes longer than all of these.
inline void StoreLessThanAll(float* p, V v, int count) {
  using Eight [[gnu::aligned(4)]] = float __attribute__((vector_size(32)));
  using Four [[gnu::aligned(4)]] = float __attribute__((vector_size(16)));
  using Two [[gnu::aligned(4)]] = float __attribute__((vector_size(8)));
  auto eight = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
  if ((count & 8) != 0) {
    *reinterpret_cast<Eight*>(p) = eight;
    eight = __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
    p += 8;
  }
  auto four = __builtin_shufflevector(eight, eight, 0, 1, 2, 3);
  if ((count & 4) != 0) {
    *reinterpret_cast<Four*>(p) = four;
    four = __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
    p += 4;
  }
  if ((count & 2) != 0) {
    *reinterpret_cast<Two*>(p) = __builtin_shufflevector(four, four, 0, 1);
    four = __builtin_shufflevector(four, four, 2, 3, 2, 3);
    p += 2;
  }
  if ((count & 1) != 0) *p = four[0];
}
#endif
// The same of any count: all values where there are more.
inline V LoadPart(const float* p, int count) { return count >= kLanes ? LoadUnaligned(p) : LoadLessThanAll(p, MaxInt(0, count)); }
inline void StorePart(float* p, V v, int count) { count >= kLanes ? StoreUnaligned(p, v) : StoreLessThanAll(p, v, MaxInt(0, count)); }

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
