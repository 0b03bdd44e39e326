// Division of indices on a device.
#pragma once

#include <cstdint>

#include "trainer/backend/cuda/device_code.h"

namespace trainyard::engine::cuda {

struct Divided {
  int64_t quotient, remainder;
};

// i >= 0, by > 0. A GPU divides 64-bit numbers by a subroutine of some hundred instructions, so
// those that fit in 32 bits are divided as such.
TY_DEVICE inline Divided Divide(int64_t i, int64_t by) {
  if ((static_cast<uint64_t>(i | by) >> 32) != 0) return {i / by, i % by};
  const uint32_t quotient = static_cast<uint32_t>(i) / static_cast<uint32_t>(by);
  return {quotient, static_cast<uint32_t>(i) - quotient * static_cast<uint32_t>(by)};
}
TY_DEVICE inline int64_t Quotient(int64_t i, int64_t by) { return Divide(i, by).quotient; }
TY_DEVICE inline int64_t Remainder(int64_t i, int64_t by) { return Divide(i, by).remainder; }

}  // namespace trainyard::engine::cuda
