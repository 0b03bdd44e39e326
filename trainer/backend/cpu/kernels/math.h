// exp, log, tanh and sigmoid of 16 values at once, within a few units in the last place of libm
// (kernels_test holds the bounds). The polynomials are minimax fits of relative error below 2^-27
// on the ranges given; range reductions are those of W. J. Cody and W. Waite, "Software Manual for
// the Elementary Functions" (1980).
#pragma once

#include "trainer/backend/cpu/kernels/vec.h"

namespace trainyard::engine {
namespace {

// e^x, clamped to x in [-87, 88]; NaN stays NaN.
inline V Exp(V x) {
  x = Min(Splat(88.0f), Max(Splat(-87.0f), x));
  // x = n ln 2 + r with |r| <= ln 2 / 2; adding and taking away 1.5 * 2^23 rounds to the nearest
  // integer.
  const V shifter = Splat(12582912.0f);
  const V biased = x * 1.44269504f + shifter;
  const V n = biased - shifter;
  const V r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  V p = Splat(1.381314243e-03f);
  p = p * r + 8.369418792e-03f;
  p = p * r + 4.166845605e-02f;
  p = p * r + 1.666651517e-01f;
  p = p * r + 4.999999404e-01f;
  const V fraction = p * (r * r) + r + 1.0f;
  // 2^n from the low bits of `biased`. The product is exact, and NaN times anything is NaN.
  const V scale = AsFloat((AsInt(biased) << 23) + AsInt(Splat(1.0f)));
  return fraction * scale;
}

// ln x for normal x > 0; NaN stays NaN.
inline V Log(V x) {
  // x = 2^n (1 + f) with 1 + f in [sqrt(1/2), sqrt(2))
  const VI bits = AsInt(x) - SplatInt(0x3f3504f3);
  const VI n = bits >> 23;
  const V m = AsFloat((bits & SplatInt(0x007fffff)) + SplatInt(0x3f3504f3));
  const V f = m - 1.0f;
  V p = Splat(-7.634429634e-02f);
  p = p * f + 1.276154965e-01f;
  p = p * f - 1.316019446e-01f;
  p = p * f + 1.420176178e-01f;
  p = p * f - 1.662335694e-01f;
  p = p * f + 2.000122666e-01f;
  p = p * f - 2.500082254e-01f;
  p = p * f + 3.333333135e-01f;
  const V k = __builtin_convertvector(n, V);
  const V square = f * f;
  const V result = k * 0.693359375f + ((p * square * f - k * 2.12194440e-4f - square * 0.5f) + f);
  return Select(x == x, result, x);
}

inline V Tanh(V x) {
  const VI sign = AsInt(x) & SplatInt(INT32_MIN);
  const V magnitude = AsFloat(AsInt(x) & SplatInt(INT32_MAX));
  // below 0.625: x + x^3 P(x^2); above: 1 - 2 / (e^2x + 1)
  const V z = x * x;
  V p = Splat(-5.704978481e-03f);
  p = p * z + 2.063907869e-02f;
  p = p * z - 5.373971164e-02f;
  p = p * z + 1.333144158e-01f;
  p = p * z - 3.333328068e-01f;
  const V small = p * z * x + x;
  const V large = 1.0f - 2.0f / (Exp(magnitude + magnitude) + 1.0f);
  return Select(magnitude < Splat(0.625f), small, AsFloat(AsInt(large) | sign));
}

inline V Sigmoid(V x) { return 1.0f / (Exp(-x) + 1.0f); }

}  // namespace
}  // namespace trainyard::engine
