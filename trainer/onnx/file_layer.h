// One layer with weights of an ONNX file, in our names and layouts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/graph/cell.h"
#include "trainer/onnx/constants.h"

namespace trainyard::engine {

// What a layer does with its weights.
enum class WeightsKind : uint8_t { kConv2d, kDense, kBatchNormalization, kEmbedding, kSimpleRnn, kLstm, kGru };
// As a job file has it: "conv2d".
std::string_view WeightsKindName(WeightsKind kind);
WeightsKind WeightsKindOf(Cell cell);

struct FileLayer {
  WeightsKind kind = WeightsKind::kDense;
  std::string node;   // its operator and name, for errors: "Gemm 'fc1'"
  std::string input;  // the tensor that it reads
  // The parameters in the order of our own: kernel, bias; gamma, beta, moving mean, moving
  // variance; kernel, recurrent kernel, bias. Names are those of the file's tensors; two layers of
  // a bidirectional operator share them.
  std::vector<OnnxConstant> weights;
  bool reverse = false;  // of a recurrent layer
  float epsilon = 0;     // of a batch normalisation
};

}  // namespace trainyard::engine
