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

// A divisor that is known before a loop starts: a multiplication and a shift divide by it. With
// 2^(l-1) < by <= 2^l and m = ceil(2^(31+l) / by), floor(i / by) = floor(i m / 2^(31+l)) for all
// i < 2^31. T. Granlund, P. Montgomery, "Division by Invariant Integers using Multiplication",
// 1994.
class Divisor {
 public:
  Divisor() : Divisor(1) {}
  Divisor(int64_t by) : by_(by) {  // NOLINT(google-explicit-constructor): a number of channels is one
    constexpr int64_t kMost = int64_t{1} << 31;
    if (by >= kMost) return;  // the factor is 0, so is the quotient
    while (int64_t{1} << shift_ < by) ++shift_;
    shift_ += 31;
    factor_ = ((uint64_t{1} << shift_) + static_cast<uint64_t>(by) - 1) / static_cast<uint64_t>(by);
  }

  int64_t by() const { return by_; }
  // Of i >= 0.
  TY_DEVICE Divided Divide(int64_t i) const {
    if (i >> 31 != 0) return {i / by_, i % by_};
    const auto quotient = static_cast<int64_t>(static_cast<uint64_t>(i) * factor_ >> shift_);
    return {quotient, i - quotient * by_};
  }
  TY_DEVICE int64_t Remainder(int64_t i) const { return Divide(i).remainder; }

 private:
  int64_t by_;
  uint64_t factor_ = 0;
  uint32_t shift_ = 0;
};

}  // namespace trainyard::engine::cuda
