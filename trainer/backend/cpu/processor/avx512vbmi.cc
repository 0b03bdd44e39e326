// Weights of 28 bits by AVX512-VBMI: vpermb spreads seven bytes over eight, vpmultishiftqb cuts two
// floats of them, vpternlogd puts in the bits of the exponent that all weights share.
#include <immintrin.h>

#include <array>

#include "trainer/backend/cpu/float28_kernel.h"
#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

constexpr int kAhead = 512;  // bytes that are fetched early: a processor stops at each page of 4 KiB

// Of each 8 bytes: six as they lie, the seventh twice.
constexpr std::array<uint8_t, 64> SpreadBytes() {
  std::array<uint8_t, 64> bytes{};
  for (int i = 0; i < 64; ++i) bytes[i] = static_cast<uint8_t>(i / 8 * 7 + (i % 8 < 6 ? i % 8 : 6));
  return bytes;
}
// The first bit of each byte of two floats in those 8 bytes.
constexpr std::array<uint8_t, 64> FirstBits() {
  constexpr std::array<uint8_t, 8> kOfPair = {0, 8, 16, 49, 24, 32, 40, 53};
  std::array<uint8_t, 64> bits{};
  for (int i = 0; i < 64; ++i) bits[i] = kOfPair[i % 8];
  return bits;
}
alignas(64) constexpr std::array<uint8_t, 64> kSpread = SpreadBytes();
alignas(64) constexpr std::array<uint8_t, 64> kFirst = FirstBits();

struct Widen {
  const __m512i spread = _mm512_load_si512(kSpread.data());
  const __m512i first = _mm512_load_si512(kFirst.data());
  const __m512i own = _mm512_set1_epi32(static_cast<int>(0x87ffffffu));
  const __m512i shared = _mm512_set1_epi32(kFloat28Least << 23);

  __m512 operator()(const uint8_t* from) const {
    constexpr int kAndOr = 0xea;  // (a & b) | c
    const __m512i bytes = _mm512_permutexvar_epi8(spread, _mm512_loadu_si512(from));
    const __m512i floats = _mm512_multishift_epi64_epi8(first, bytes);
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(floats, own, shared, kAndOr));
  }
};

struct PanelSums {
  __m512 of[2];
  void Add(float x, __m512 first, __m512 second) {
    const __m512 splat = _mm512_set1_ps(x);
    of[0] = _mm512_fmadd_ps(splat, first, of[0]);
    of[1] = _mm512_fmadd_ps(splat, second, of[1]);
  }
};

void MultiplyRow(const Float28Args& args) {
  const Widen widen;
  const uint8_t* weights = args.weights + args.begin * args.k * 2 * kFloat28VectorBytes;
  for (int64_t panel = args.begin; panel < args.end; ++panel) {
    const float* bias = args.bias + panel * kFloat28Columns;
    PanelSums sums = {{_mm512_load_ps(bias), _mm512_load_ps(bias + kLanes)}};
    const Float28WideRow* wide = args.wide + args.wide_begin[panel];
    const Float28WideRow* const last_wide = args.wide + args.wide_begin[panel + 1];
    for (int64_t k = 0; k < args.k; ++k, weights += 2 * kFloat28VectorBytes) {
      const int64_t end = wide < last_wide ? wide->k : args.k;
      for (; k < end; ++k, weights += 2 * kFloat28VectorBytes) {
        __builtin_prefetch(weights + kAhead);
        __builtin_prefetch(weights + kAhead + 64);
        sums.Add(args.x[k], widen(weights), widen(weights + kFloat28VectorBytes));
      }
      if (end == args.k) break;
      sums.Add(args.x[k], _mm512_loadu_ps(wide->weights), _mm512_loadu_ps(wide->weights + kLanes));
      ++wide;
    }
    const __m512 scale = _mm512_set1_ps(args.scales[panel]);
    for (int i = 0; i < 2; ++i) {
      const int64_t column = panel * kFloat28Columns + i * kLanes;
      if (column >= args.columns) break;
      V y = reinterpret_cast<V>(_mm512_mul_ps(sums.of[i], scale));
      if (args.relu) y = V{} > y ? V{} : y;
      StorePart(args.y + column, y, static_cast<int>(args.columns - column < kLanes ? args.columns - column : kLanes));
    }
  }
}

}  // namespace

namespace avx512vbmi {
extern const Float28Product kProduct;
const Float28Product kProduct = MultiplyRow;
}  // namespace avx512vbmi

}  // namespace trainyard::engine
