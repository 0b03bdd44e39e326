// The LSTM, GRU and RNN operators of an ONNX file.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "trainer/onnx/constants.h"
#include "trainer/onnx/file_layer.h"

namespace trainyard::engine {

// One layer for each direction, forward first; node and input are left empty. InvalidArgument: what
// no layer of ours has, as peepholes, or a wrong shape.
absl::StatusOr<std::vector<FileLayer>> RecurrentLayersOf(const onnx::NodeProto& node, OnnxConstants& constants);

}  // namespace trainyard::engine
