// The inputs of a request, whatever protocol it came by.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace trainyard::engine {

// The little-endian elements of a tensor in C order, as they came.
struct RawElements {
  std::string bytes;
};

struct InputTensor {
  std::string field;     // its place in the request, for errors: "inputs[0]"
  std::string name;      // "": the model's only input
  std::string datatype;  // of the Open Inference Protocol: "FP32", "BYTES" …; "": what the numbers or texts are, as in TensorFlow's JSON
  std::vector<int64_t> shape;
  std::variant<std::vector<double>, RawElements, std::vector<std::string>> data;  // numbers (NaN: null), bytes of numbers, or texts
};

}  // namespace trainyard::engine
