// Weights of a dense layer in 28 bits, for predictions of one example. A single row reads each
// weight once. Where weights fit no near cache, time is bytes over the memory's bandwidth.
//
// No weight loses a bit, and results have the bits of a product with floats. Columns lie in panels
// of 32, each scaled by a power of two so that its largest weight is in [1, 2). A weight of at
// least 2^-15 then has a sign, one of 16 exponents and 23 bits of mantissa. Some weights in ten
// thousand are smaller. Their rows of the panel are held as floats too, which take the place of
// what is packed.
//
// Two weights take 7 bytes: the low 24 bits of one, those of the other, and the upper 4 of both.
// Those 24 bits are mantissa and lowest bit of the exponent. The seventh byte holds, from its
// lowest bit on, sign and upper three bits of the exponent of one, then of the other. So both of
// its halves can be cut, sign last, from the byte written twice (processor/avx512vbmi.cc).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "trainer/backend/cpu/device.h"
#include "trainer/backend/cpu/float28_kernel.h"

namespace trainyard::engine {

// The product that this machine runs; null without AVX512-VBMI.
Float28Product RunnableFloat28Product();

class Float28Weights {
 public:
  // Takes [k][columns] and, unless null, a bias [columns]. Nothing where a weight or bias is not
  // finite or far beyond a panel's largest weight, or where too many rows of a panel would be
  // floats. Executors of the same parameters share the memory.
  static std::optional<Float28Weights> Pack(int64_t k, int64_t columns, const float* weights, const float* bias, CpuDevice& device);

  // y [columns] = act(x [k] weights + bias); y in whole vectors.
  void Multiply(const float* x, float* y, Activation activation, CpuDevice& device) const;

  // The weight at [row][column] as it is packed; for tests.
  float At(int64_t row, int64_t column) const;
  int64_t wide_rows() const { return static_cast<int64_t>(wide_.size()); }

 private:
  Float28Weights(int64_t k, int64_t columns) : k_(k), columns_(columns), panels_((columns + kFloat28Columns - 1) / kFloat28Columns) {}

  // Sets scales_ and wide rows. False as Pack.
  bool Survey(const float* weights, const float* bias);
  bool SurveyPanel(int64_t panel, const float* weights, const float* bias);
  void Fill(const float* weights, const float* bias, float* memory, ThreadPool& pool) const;
  int64_t bias_floats() const { return panels_ * kFloat28Columns; }
  const uint8_t* panels_at() const;

  int64_t k_, columns_, panels_;
  std::vector<float> scales_;  // [panel]
  std::vector<Float28WideRow> wide_;
  std::vector<int64_t> wide_begin_;      // [panel + 1]
  std::shared_ptr<const float> memory_;  // biases, then the panels
};

}  // namespace trainyard::engine
