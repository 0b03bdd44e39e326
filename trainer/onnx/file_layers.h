// The layers with weights of an ONNX file, in the order of its nodes, with their weights in our
// names and layouts.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "trainer/onnx/file_layer.h"
#include "trainer/onnx/proto/onnx.pb.h"

namespace trainyard::engine {

// InvalidArgument names the tensor, or the node whose form we have no layer for, or the tensor that
// brings their numbers above `most_elements`.
absl::StatusOr<std::vector<FileLayer>> LayersOfOnnx(const onnx::GraphProto& graph, int64_t most_elements);

}  // namespace trainyard::engine
