// A model's layers that have parameters, as an ONNX file has to have them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/graph/graph.h"
#include "trainer/onnx/file_layer.h"

namespace trainyard::engine {

struct ModelLayer {
  WeightsKind kind = WeightsKind::kDense;
  std::string name;       // "conv1", "both/backward"
  std::vector<int> keys;  // of its parameters, in the order of FileLayer::weights
  // Pixels and channels of the flattened images that it reads; 1 channel: none.
  std::array<int64_t, 2> image = {1, 1};
  bool reverse = false;
  float epsilon = 0;
};

// In the order of the job file.
std::vector<ModelLayer> ModelLayersOf(const Graph& forward);

}  // namespace trainyard::engine
