// The rounding that Precision::kBfloat16 asks for: of the operands of products, and of values that
// lie in memory as bfloat16.
#pragma once

#include "trainer/backend/reference/kernels.h"
#include "trainer/tensor/bfloat16.h"
#include "trainer/tensor/precision.h"

namespace trainyard::engine::reference {

// An operand of a product.
template <typename T>
T Operand(T x, Precision precision) {
  return precision == Precision::kBfloat16 ? static_cast<T>(RoundToBfloat16(static_cast<float>(x))) : x;
}

// Runs a node whose first two inputs are the operands of a product, and whose second output, if
// there is one, is a sum of what was not rounded.
template <typename T>
RunFunction WithRoundedOperands(RunFunction run, const NodeView& node);

// Runs a node whose first output is held as bfloat16.
template <typename T>
RunFunction WithRoundedOutput(RunFunction run, const NodeView& node);

}  // namespace trainyard::engine::reference
