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
  std::vector<std::byte> bytes;  // all steps of the first example, then those of the second …
  std::vector<int64_t> steps;    // of each example: what the model reads one after the other, the tokens of a text; empty: one step each
};

}  // namespace trainyard::engine
