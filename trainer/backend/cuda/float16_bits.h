// float16 as bits, and the same value as f32. A device has instructions for it.
#pragma once

#include <bit>
#include <cstdint>

#include "trainer/backend/cuda/device_code.h"

#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

namespace trainyard::engine::cuda {

#ifdef __CUDA_ARCH__

TY_DEVICE inline float FromFloat16Bits(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
TY_DEVICE inline uint16_t ToFloat16Bits(float x) { return __half_as_ushort(__float2half_rn(x)); }

#else

// By integers and exact products, as in F. Giesen, "Half to float done quic(k)", 2012.
TY_DEVICE inline float FromFloat16Bits(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t magnitude = (bits & 0x7fffu) << 13;
  if (magnitude >= 0x0f800000u) return std::bit_cast<float>(sign | magnitude | 0x7f800000u);  // infinite, or NaN
  // The exponent counts from -15 there and from -127 here.
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f));
}

// To nearest, of two as near to even; a NaN stays one.
TY_DEVICE inline uint16_t ToFloat16Bits(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x47800000u) return sign | 0x7c00u;  // 65536 and more: infinite
  if (magnitude < 0x38800000u) {
    // Below 2^-14 the last bit is 2^-24, which is that of an f32 sum with 0.5.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(sum) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23);
  return static_cast<uint16_t>(sign | rounded >> 13);
}

#endif

}  // namespace trainyard::engine::cuda
