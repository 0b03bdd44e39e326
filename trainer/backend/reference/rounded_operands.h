// The rounding that a precision of 16 bits asks for: of the operands of products, and of values
// that lie in memory so.
#pragma once

#include "trainer/backend/reference/kernels.h"
#include "trainer/tensor/bfloat16.h"
#include "trainer/tensor/float16.h"
#include "trainer/tensor/precision.h"

namespace trainyard::engine::reference {

// An operand of a product.
template <typename T>
T Operand(T x, Precision precision) {
  switch (precision) {
    case Precision::kBfloat16:
      return static_cast<T>(RoundToBfloat16(static_cast<float>(x)));
    case Precision::kFloat16:
      return static_cast<T>(RoundToFloat16(static_cast<float>(x)));
    case Precision::kFloat32:
    case Precision::kTf32:
      break;
  }
  return x;
}

// Runs a node whose first two inputs are the operands of a product.
template <typename T>
RunFunction WithRoundedOperands(RunFunction run, const NodeView& node, Precision precision);

// The same of a node whose second output, if there is one, is a sum of what was not rounded: the
// bias's gradient.
template <typename T>
RunFunction WithRoundedOperandsButSums(RunFunction run, const NodeView& node, Precision precision);

// Runs a node whose first output is narrow.
template <typename T>
RunFunction WithRoundedOutput(RunFunction run, const NodeView& node, Precision precision);

}  // namespace trainyard::engine::reference
