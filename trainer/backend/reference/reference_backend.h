// The oracle: every op in plain loops and Eigen, row-major, one thread. Slow, readable, complete;
// other backends are held against it.
#pragma once

#include <memory>

#include "trainer/backend/backend.h"
#include "trainer/tensor/precision.h"

namespace trainyard::engine {

// math: kF32, or kF64 to compute (not to store parameters and results) in double, for numeric
// gradient checks. Nodes with an Epilogue run as product, bias, pool, activation, one after the
// other. In either, `precision` rounds the operands of products.
std::unique_ptr<Backend> MakeReferenceBackend(DType math = DType::kF32, Precision precision = Precision::kFloat32);

}  // namespace trainyard::engine
