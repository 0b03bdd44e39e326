// Examples of a request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trainer/tensor/dtype.h"

namespace trainyard::engine {

// As Predictor::Predict takes them.
struct ServedExamples {
  DType dtype = DType::kF32;
  int64_t count = 0;
  std::vector<std::byte> bytes;
};

}  // namespace trainyard::engine
